/* The layout of the public structs on machines with pointers of 64 bits.  A program that was built
   against this release keeps running with the next one, so no field may move: the tables hold the
   places of all fields.  A new field goes to the end of its struct and gets a line here.  The build
   fails if a field has another place than its line says. */
#include "dptrain.h"
#include "harness.h"

#include <stddef.h>
#include <stdint.h>

#if UINTPTR_MAX == UINT64_MAX
#define FIELD(type, field, place)                                                                  \
    _Static_assert(offsetof(type, field) == (place), #type "." #field " has moved")
#define FROZEN(type, size) _Static_assert(sizeof(type) == (size), #type " must not grow")
#else
#define FIELD(type, field, place) _Static_assert(1, "not a machine of 64 bits")
#define FROZEN(type, size)        _Static_assert(1, "not a machine of 64 bits")
#endif

/* ---- Structs that begin with their size and grow at their end ----------------------------------
 */

FIELD(dpt_class_info, size, 0);
FIELD(dpt_class_info, samples, 8);
FIELD(dpt_class_info, predicted, 16);
FIELD(dpt_class_info, hits, 24);
FIELD(dpt_class_info, precision, 32);
FIELD(dpt_class_info, recall, 40);
FIELD(dpt_class_info, f1, 48);
FIELD(dpt_class_info, auc, 56);

FIELD(dpt_candidate, size, 0);
FIELD(dpt_candidate, shard, 8);
FIELD(dpt_candidate, offload, 12);
FIELD(dpt_candidate, recompute, 16);
FIELD(dpt_candidate, options, 24);
FIELD(dpt_candidate, fits, 32);
FIELD(dpt_candidate, device, 40);
FIELD(dpt_candidate, need_bytes, 48);
FIELD(dpt_candidate, limit_bytes, 56);

FIELD(dpt_classification_info, size, 0);
FIELD(dpt_classification_info, samples, 8);
FIELD(dpt_classification_info, classes, 16);
FIELD(dpt_classification_info, hits, 24);
FIELD(dpt_classification_info, top5_hits, 32);
FIELD(dpt_classification_info, accuracy, 40);
FIELD(dpt_classification_info, top5_accuracy, 48);
FIELD(dpt_classification_info, macro_precision, 56);
FIELD(dpt_classification_info, macro_recall, 64);
FIELD(dpt_classification_info, macro_f1, 72);
FIELD(dpt_classification_info, weighted_precision, 80);
FIELD(dpt_classification_info, weighted_recall, 88);
FIELD(dpt_classification_info, weighted_f1, 96);
FIELD(dpt_classification_info, auc, 104);
FIELD(dpt_classification_info, no_auc, 112);

FIELD(dpt_context_options, size, 0);
FIELD(dpt_context_options, device_timeout, 8);
FIELD(dpt_context_options, devices, 16);

FIELD(dpt_conv2d_options, size, 0);
FIELD(dpt_conv2d_options, out_channels, 8);
FIELD(dpt_conv2d_options, kernel, 16);
FIELD(dpt_conv2d_options, stride, 32);
FIELD(dpt_conv2d_options, padding, 48);
FIELD(dpt_conv2d_options, dilation, 64);
FIELD(dpt_conv2d_options, groups, 80);
FIELD(dpt_conv2d_options, no_bias, 88);
FIELD(dpt_conv2d_options, activation, 92);

FIELD(dpt_dataset_info, size, 0);
FIELD(dpt_dataset_info, name, 8);
FIELD(dpt_dataset_info, count, 16);
FIELD(dpt_dataset_info, height, 24);
FIELD(dpt_dataset_info, width, 32);
FIELD(dpt_dataset_info, channels, 40);
FIELD(dpt_dataset_info, outputs, 48);
FIELD(dpt_dataset_info, source, 56);
FIELD(dpt_dataset_info, class_names, 64);
FIELD(dpt_dataset_info, read_as_needed, 72);
FIELD(dpt_dataset_info, vocabulary, 80);
FIELD(dpt_dataset_info, labels_per_sample, 88);
FIELD(dpt_dataset_info, bytes_per_label, 96);

FIELD(dpt_dataset_memory, size, 0);
FIELD(dpt_dataset_memory, count, 8);
FIELD(dpt_dataset_memory, height, 16);
FIELD(dpt_dataset_memory, width, 24);
FIELD(dpt_dataset_memory, channels, 32);
FIELD(dpt_dataset_memory, outputs, 40);
FIELD(dpt_dataset_memory, dtype, 48);
FIELD(dpt_dataset_memory, images, 56);
FIELD(dpt_dataset_memory, labels, 64);
FIELD(dpt_dataset_memory, label_dtype, 72);
FIELD(dpt_dataset_memory, targets, 80);
FIELD(dpt_dataset_memory, mean, 88);
FIELD(dpt_dataset_memory, deviation, 104);
FIELD(dpt_dataset_memory, writable, 120);
FIELD(dpt_dataset_memory, vocabulary, 128);
FIELD(dpt_dataset_memory, labels_per_sample, 136);
FIELD(dpt_dataset_memory, inputs, 144);
FIELD(dpt_dataset_memory, n_inputs, 152);

FIELD(dpt_dataset_reader, size, 0);
FIELD(dpt_dataset_reader, read, 8);
FIELD(dpt_dataset_reader, user, 16);
FIELD(dpt_dataset_reader, n_threads, 24);
FIELD(dpt_dataset_reader, names_samples, 32);

FIELD(dpt_device_event, size, 0);
FIELD(dpt_device_event, kind, 8);
FIELD(dpt_device_event, device, 16);
FIELD(dpt_device_event, id, 24);
FIELD(dpt_device_event, step, 32);
FIELD(dpt_device_event, status, 40);
FIELD(dpt_device_event, message, 48);

FIELD(dpt_device_info, size, 0);
FIELD(dpt_device_info, id, 8);
FIELD(dpt_device_info, alias, 16);
FIELD(dpt_device_info, backend, 24);
FIELD(dpt_device_info, name, 32);
FIELD(dpt_device_info, detail, 40);
FIELD(dpt_device_info, memory_bytes, 48);
FIELD(dpt_device_info, n_threads, 56);
FIELD(dpt_device_info, process, 64);
FIELD(dpt_device_info, host, 72);
FIELD(dpt_device_info, island, 80);

FIELD(dpt_device_plan, size, 0);
FIELD(dpt_device_plan, samples, 8);
FIELD(dpt_device_plan, micro_batch, 16);
FIELD(dpt_device_plan, cached, 24);
FIELD(dpt_device_plan, parameter_bytes, 32);
FIELD(dpt_device_plan, optimizer_bytes, 40);
FIELD(dpt_device_plan, activation_bytes, 48);
FIELD(dpt_device_plan, step_bytes, 56);
FIELD(dpt_device_plan, data_bytes, 64);
FIELD(dpt_device_plan, streamed, 72);
FIELD(dpt_device_plan, flops, 80);
FIELD(dpt_device_plan, exchange_bytes, 88);
FIELD(dpt_device_plan, gradient_bytes, 96);
FIELD(dpt_device_plan, kept_bytes, 104);
FIELD(dpt_device_plan, recomputed_flops, 112);
FIELD(dpt_device_plan, gathered_bytes, 120);
FIELD(dpt_device_plan, update_bytes, 128);
FIELD(dpt_device_plan, copy_bytes, 136);
FIELD(dpt_device_plan, mirror_bytes, 144);
FIELD(dpt_device_plan, shared_bytes, 152);

FIELD(dpt_round_plan, size, 0);
FIELD(dpt_round_plan, exchange_bytes, 8);
FIELD(dpt_round_plan, host_bytes, 16);
FIELD(dpt_round_plan, end_bytes, 24);
FIELD(dpt_round_plan, largest_bytes, 32);

FIELD(dpt_device_rates, size, 0);
FIELD(dpt_device_rates, flops, 8);
FIELD(dpt_device_rates, upload_bytes, 16);
FIELD(dpt_device_rates, download_bytes, 24);
FIELD(dpt_device_rates, copy_bytes, 32);
FIELD(dpt_device_rates, host_memory, 40);

FIELD(dpt_device_report, size, 0);
FIELD(dpt_device_report, samples, 8);
FIELD(dpt_device_report, steps, 16);
FIELD(dpt_device_report, busy_seconds, 24);
FIELD(dpt_device_report, exchange_seconds, 32);
FIELD(dpt_device_report, waiting_seconds, 40);
FIELD(dpt_device_report, throughput, 48);
FIELD(dpt_device_report, alone_throughput, 56);

FIELD(dpt_embedding_options, size, 0);
FIELD(dpt_embedding_options, rows, 8);
FIELD(dpt_embedding_options, width, 16);
FIELD(dpt_embedding_options, deviation, 24);

FIELD(dpt_epoch_metrics, size, 0);
FIELD(dpt_epoch_metrics, epoch, 8);
FIELD(dpt_epoch_metrics, train_loss, 16);
FIELD(dpt_epoch_metrics, train_accuracy, 24);
FIELD(dpt_epoch_metrics, tested, 32);
FIELD(dpt_epoch_metrics, validated, 33);
FIELD(dpt_epoch_metrics, test_loss, 40);
FIELD(dpt_epoch_metrics, test_accuracy, 48);
FIELD(dpt_epoch_metrics, validation_loss, 56);
FIELD(dpt_epoch_metrics, validation_accuracy, 64);
FIELD(dpt_epoch_metrics, seconds, 72);
FIELD(dpt_epoch_metrics, images_per_second, 80);
FIELD(dpt_epoch_metrics, weights_sha256, 88);
FIELD(dpt_epoch_metrics, validation_classes, 160);
FIELD(dpt_epoch_metrics, test_classes, 168);

FIELD(dpt_evaluation, size, 0);
FIELD(dpt_evaluation, samples, 8);
FIELD(dpt_evaluation, hits, 16);
FIELD(dpt_evaluation, loss, 24);
FIELD(dpt_evaluation, accuracy, 32);
FIELD(dpt_evaluation, seconds, 40);
FIELD(dpt_evaluation, labels, 48);

FIELD(dpt_fit_options, size, 0);
FIELD(dpt_fit_options, epochs, 8);
FIELD(dpt_fit_options, max_steps, 16);
FIELD(dpt_fit_options, max_seconds, 24);
FIELD(dpt_fit_options, test, 32);
FIELD(dpt_fit_options, validation, 40);
FIELD(dpt_fit_options, patience, 48);
FIELD(dpt_fit_options, schedule, 56);
FIELD(dpt_fit_options, log, 88);
FIELD(dpt_fit_options, plot, 96);
FIELD(dpt_fit_options, trace, 104);
FIELD(dpt_fit_options, checkpoint, 112);
FIELD(dpt_fit_options, checkpoint_every, 120);
FIELD(dpt_fit_options, checkpoint_keep, 144);
FIELD(dpt_fit_options, host_copy, 152);
FIELD(dpt_fit_options, resume, 160);
FIELD(dpt_fit_options, progress, 168);
FIELD(dpt_fit_options, notice, 176);
FIELD(dpt_fit_options, user, 184);
FIELD(dpt_fit_options, schedule_steps, 192);
FIELD(dpt_fit_options, wants_checkpoint, 200);
FIELD(dpt_fit_options, tensorboard, 208);
FIELD(dpt_fit_options, report, 216);
FIELD(dpt_fit_options, command, 224);
FIELD(dpt_fit_options, tensorboard_histograms, 232);
FIELD(dpt_fit_options, metrics, 233);
FIELD(dpt_fit_options, copies, 240);
FIELD(dpt_fit_options, again, 248);

FIELD(dpt_fit_progress, size, 0);
FIELD(dpt_fit_progress, step, 8);
FIELD(dpt_fit_progress, epoch, 16);
FIELD(dpt_fit_progress, event, 24);
FIELD(dpt_fit_progress, steps_done, 32);
FIELD(dpt_fit_progress, steps_total, 40);
FIELD(dpt_fit_progress, seconds, 48);

FIELD(dpt_fit_result, size, 0);
FIELD(dpt_fit_result, steps, 8);
FIELD(dpt_fit_result, epochs, 16);
FIELD(dpt_fit_result, seconds, 24);
FIELD(dpt_fit_result, images_per_second, 32);
FIELD(dpt_fit_result, train_loss, 40);
FIELD(dpt_fit_result, test_loss, 48);
FIELD(dpt_fit_result, test_accuracy, 56);
FIELD(dpt_fit_result, best_epoch, 64);
FIELD(dpt_fit_result, best_validation_loss, 72);
FIELD(dpt_fit_result, stopped, 80);
FIELD(dpt_fit_result, no_patience, 81);
FIELD(dpt_fit_result, stopped_by, 88);
FIELD(dpt_fit_result, stopped_for, 96);

FIELD(dpt_input_info, size, 0);
FIELD(dpt_input_info, name, 8);
FIELD(dpt_input_info, elements, 16);
FIELD(dpt_input_info, vocabulary, 24);

FIELD(dpt_load_options, size, 0);
FIELD(dpt_load_options, except, 8);
FIELD(dpt_load_options, partial, 16);

FIELD(dpt_layer_info, size, 0);
FIELD(dpt_layer_info, name, 8);
FIELD(dpt_layer_info, kind, 16);
FIELD(dpt_layer_info, height, 24);
FIELD(dpt_layer_info, width, 32);
FIELD(dpt_layer_info, channels, 40);
FIELD(dpt_layer_info, parameters, 48);
FIELD(dpt_layer_info, multiply_adds, 56);

FIELD(dpt_linear_options, size, 0);
FIELD(dpt_linear_options, out, 8);
FIELD(dpt_linear_options, no_bias, 16);
FIELD(dpt_linear_options, activation, 20);

FIELD(dpt_link, size, 0);
FIELD(dpt_link, alpha, 8);
FIELD(dpt_link, beta, 16);
FIELD(dpt_link, route, 24);
FIELD(dpt_link, window, 32);

FIELD(dpt_log_comparison, size, 0);
FIELD(dpt_log_comparison, steps, 8);
FIELD(dpt_log_comparison, epochs, 24);
FIELD(dpt_log_comparison, common_steps, 40);
FIELD(dpt_log_comparison, common_epochs, 48);
FIELD(dpt_log_comparison, common_weights, 56);
FIELD(dpt_log_comparison, differs, 64);
FIELD(dpt_log_comparison, step, 72);
FIELD(dpt_log_comparison, epoch, 80);
FIELD(dpt_log_comparison, key, 88);
FIELD(dpt_log_comparison, values, 120);
FIELD(dpt_log_comparison, largest_loss_difference, 280);
FIELD(dpt_log_comparison, largest_loss_step, 288);
FIELD(dpt_log_comparison, settings, 296);

FIELD(dpt_lora_files, size, 0);
FIELD(dpt_lora_files, base, 8);
FIELD(dpt_lora_files, adapter, 16);
FIELD(dpt_lora_files, merged, 24);

FIELD(dpt_lora_info, size, 0);
FIELD(dpt_lora_info, rank, 8);
FIELD(dpt_lora_info, alpha, 16);
FIELD(dpt_lora_info, dropout, 24);
FIELD(dpt_lora_info, layers, 32);
FIELD(dpt_lora_info, base, 1056);

FIELD(dpt_lora_options, size, 0);
FIELD(dpt_lora_options, rank, 8);
FIELD(dpt_lora_options, alpha, 16);
FIELD(dpt_lora_options, layers, 24);
FIELD(dpt_lora_options, base, 32);

FIELD(dpt_mix_report, size, 0);
FIELD(dpt_mix_report, steps, 8);
FIELD(dpt_mix_report, samples, 16);
FIELD(dpt_mix_report, seconds, 24);
FIELD(dpt_mix_report, throughput, 32);
FIELD(dpt_mix_report, balance, 40);
FIELD(dpt_mix_report, scaling, 48);

FIELD(dpt_norm_options, size, 0);
FIELD(dpt_norm_options, epsilon, 8);
FIELD(dpt_norm_options, momentum, 12);
FIELD(dpt_norm_options, activation, 16);

FIELD(dpt_onnx_options, size, 0);
FIELD(dpt_onnx_options, opset, 8);
FIELD(dpt_onnx_options, most_bytes, 16);

FIELD(dpt_operation, size, 0);
FIELD(dpt_operation, layer, 8);
FIELD(dpt_operation, kind, 16);
FIELD(dpt_operation, algorithm, 24);
FIELD(dpt_operation, measured, 32);

FIELD(dpt_parameter_info, size, 0);
FIELD(dpt_parameter_info, name, 8);
FIELD(dpt_parameter_info, shape, 16);
FIELD(dpt_parameter_info, rank, 80);
FIELD(dpt_parameter_info, elements, 88);
FIELD(dpt_parameter_info, trained, 96);

FIELD(dpt_pool2d_options, size, 0);
FIELD(dpt_pool2d_options, kind, 8);
FIELD(dpt_pool2d_options, kernel, 16);
FIELD(dpt_pool2d_options, stride, 32);
FIELD(dpt_pool2d_options, padding, 48);

FIELD(dpt_pictures_options, size, 0);
FIELD(dpt_pictures_options, shape, 8);
FIELD(dpt_pictures_options, outputs, 40);
FIELD(dpt_pictures_options, skip_unreadable, 48);
FIELD(dpt_pictures_options, n_threads, 56);

FIELD(dpt_predictor_device_info, size, 0);
FIELD(dpt_predictor_device_info, id, 8);
FIELD(dpt_predictor_device_info, bytes, 16);
FIELD(dpt_predictor_device_info, lost, 24);
FIELD(dpt_predictor_device_info, message, 32);

FIELD(dpt_predictor_options, size, 0);
FIELD(dpt_predictor_options, weights, 8);
FIELD(dpt_predictor_options, micro_batch, 16);
FIELD(dpt_predictor_options, like, 24);
FIELD(dpt_predictor_options, dtype, 32);
FIELD(dpt_predictor_options, mean, 36);
FIELD(dpt_predictor_options, deviation, 52);
FIELD(dpt_predictor_options, logits, 68);
FIELD(dpt_predictor_options, split, 72);
FIELD(dpt_predictor_options, device_timeout, 88);
FIELD(dpt_predictor_options, sigmoid, 96);
FIELD(dpt_predictor_options, deterministic, 97);

FIELD(dpt_model_recipe, size, 0);
FIELD(dpt_model_recipe, build, 8);
FIELD(dpt_model_recipe, how, 16);
FIELD(dpt_model_recipe, how_bytes, 24);
FIELD(dpt_model_recipe, context, 32);

FIELD(dpt_sampling, size, 0);
FIELD(dpt_sampling, temperature, 8);
FIELD(dpt_sampling, top_k, 16);
FIELD(dpt_sampling, top_p, 24);
FIELD(dpt_sampling, seed, 32);

FIELD(dpt_generator_options, size, 0);
FIELD(dpt_generator_options, weights, 8);
FIELD(dpt_generator_options, context, 16);
FIELD(dpt_generator_options, device_timeout, 24);
FIELD(dpt_generator_options, deterministic, 32);

FIELD(dpt_attention_options, size, 0);
FIELD(dpt_attention_options, heads, 8);
FIELD(dpt_attention_options, memory, 16);
FIELD(dpt_attention_options, causal, 20);
FIELD(dpt_attention_options, no_bias, 21);

FIELD(dpt_sequence_linear_options, size, 0);
FIELD(dpt_sequence_linear_options, out, 8);
FIELD(dpt_sequence_linear_options, table, 16);
FIELD(dpt_sequence_linear_options, deviation, 24);
FIELD(dpt_sequence_linear_options, no_bias, 28);
FIELD(dpt_sequence_linear_options, in_first, 29);

FIELD(dpt_positions_options, size, 0);
FIELD(dpt_positions_options, rows, 8);
FIELD(dpt_positions_options, deviation, 16);

FIELD(dpt_rotary_options, size, 0);
FIELD(dpt_rotary_options, heads, 8);
FIELD(dpt_rotary_options, base, 16);

FIELD(dpt_attend_options, size, 0);
FIELD(dpt_attend_options, keys, 8);
FIELD(dpt_attend_options, values, 12);
FIELD(dpt_attend_options, heads, 16);
FIELD(dpt_attend_options, key_heads, 24);
FIELD(dpt_attend_options, causal, 32);

FIELD(dpt_recurrent_options, size, 0);
FIELD(dpt_recurrent_options, hidden, 8);
FIELD(dpt_recurrent_options, layers, 16);
FIELD(dpt_recurrent_options, bidirectional, 24);
FIELD(dpt_recurrent_options, no_bias, 25);
FIELD(dpt_recurrent_options, last, 26);
FIELD(dpt_recurrent_options, relu, 27);

FIELD(dpt_slice_options, size, 0);
FIELD(dpt_slice_options, axis, 8);
FIELD(dpt_slice_options, begin, 16);
FIELD(dpt_slice_options, count, 24);
FIELD(dpt_slice_options, step, 32);

FIELD(dpt_reduce_options, size, 0);
FIELD(dpt_reduce_options, kind, 8);
FIELD(dpt_reduce_options, axes, 16);
FIELD(dpt_reduce_options, n_axes, 80);
FIELD(dpt_reduce_options, keep, 88);

FIELD(dpt_step_metrics, size, 0);
FIELD(dpt_step_metrics, step, 8);
FIELD(dpt_step_metrics, epoch, 16);
FIELD(dpt_step_metrics, last_of_epoch, 24);
FIELD(dpt_step_metrics, lr, 32);
FIELD(dpt_step_metrics, samples, 40);
FIELD(dpt_step_metrics, loss, 48);
FIELD(dpt_step_metrics, hits, 56);
FIELD(dpt_step_metrics, seconds, 64);
FIELD(dpt_step_metrics, data_seconds, 72);
FIELD(dpt_step_metrics, n_devices, 80);
FIELD(dpt_step_metrics, shards, 88);
FIELD(dpt_step_metrics, device_seconds, 96);
FIELD(dpt_step_metrics, exchange_seconds, 104);
FIELD(dpt_step_metrics, waiting_seconds, 112);
FIELD(dpt_step_metrics, rebalance, 120);
FIELD(dpt_step_metrics, throughput, 128);
FIELD(dpt_step_metrics, n_lost, 136);
FIELD(dpt_step_metrics, labels, 144);
FIELD(dpt_step_metrics, round_seconds, 152);

FIELD(dpt_survey_info, size, 0);
FIELD(dpt_survey_info, data, 8);
FIELD(dpt_survey_info, class_counts, 16);
FIELD(dpt_survey_info, n_unreadable, 24);
FIELD(dpt_survey_info, has_statistics, 32);
FIELD(dpt_survey_info, mean, 36);
FIELD(dpt_survey_info, deviation, 52);

FIELD(dpt_survey_options, size, 0);
FIELD(dpt_survey_options, unreadable, 8);
FIELD(dpt_survey_options, progress, 16);
FIELD(dpt_survey_options, user, 24);

FIELD(dpt_trainer_options, size, 0);
FIELD(dpt_trainer_options, batch_size, 8);
FIELD(dpt_trainer_options, accumulate, 16);
FIELD(dpt_trainer_options, micro_batch, 24);
FIELD(dpt_trainer_options, split, 32);
FIELD(dpt_trainer_options, no_standby, 48);
FIELD(dpt_trainer_options, no_rest, 48);
FIELD(dpt_trainer_options, no_overlap, 49);
FIELD(dpt_trainer_options, compress, 52);
FIELD(dpt_trainer_options, bucket_bytes, 56);
FIELD(dpt_trainer_options, optimizer, 64);
FIELD(dpt_trainer_options, lr, 68);
FIELD(dpt_trainer_options, lr_base_batch, 72);
FIELD(dpt_trainer_options, momentum, 80);
FIELD(dpt_trainer_options, weight_decay, 84);
FIELD(dpt_trainer_options, nesterov, 88);
FIELD(dpt_trainer_options, no_bias_decay, 89);
FIELD(dpt_trainer_options, beta1, 92);
FIELD(dpt_trainer_options, beta2, 96);
FIELD(dpt_trainer_options, epsilon, 100);
FIELD(dpt_trainer_options, clip_norm, 104);
FIELD(dpt_trainer_options, loss, 108);
FIELD(dpt_trainer_options, label_smoothing, 112);
FIELD(dpt_trainer_options, batch_norm, 116);
FIELD(dpt_trainer_options, augment, 120);
FIELD(dpt_trainer_options, init, 144);
FIELD(dpt_trainer_options, seed, 160);
FIELD(dpt_trainer_options, no_shuffle, 168);
FIELD(dpt_trainer_options, stop_on_loss, 169);
FIELD(dpt_trainer_options, device_timeout, 176);
FIELD(dpt_trainer_options, verify_replicas, 184);
FIELD(dpt_trainer_options, readmit_after, 192);
FIELD(dpt_trainer_options, huber_delta, 200);
FIELD(dpt_trainer_options, class_weights, 208);
FIELD(dpt_trainer_options, n_class_weights, 216);
FIELD(dpt_trainer_options, groups, 224);
FIELD(dpt_trainer_options, n_groups, 232);
FIELD(dpt_trainer_options, own_loss, 240);
FIELD(dpt_trainer_options, own_loss_user, 248);
FIELD(dpt_trainer_options, deterministic, 256);
FIELD(dpt_trainer_options, own_loss_deterministic, 257);
FIELD(dpt_trainer_options, recompute, 260);
FIELD(dpt_trainer_options, logit_rows, 264);
FIELD(dpt_trainer_options, rotate, 272);
FIELD(dpt_trainer_options, jitter, 276);
FIELD(dpt_trainer_options, mixup, 292);
FIELD(dpt_trainer_options, cutmix, 296);
FIELD(dpt_trainer_options, randaugment, 304);
FIELD(dpt_trainer_options, local_steps, 320);
FIELD(dpt_trainer_options, outer_lr, 328);
FIELD(dpt_trainer_options, outer_momentum, 332);
FIELD(dpt_trainer_options, no_outer_momentum, 336);
FIELD(dpt_trainer_options, shard, 340);
FIELD(dpt_trainer_options, outer_delay, 344);
FIELD(dpt_trainer_options, outer_fragments, 352);
FIELD(dpt_trainer_options, offload, 360);
FIELD(dpt_trainer_options, compress_rank, 368);

FIELD(dpt_operator_call, size, 0);
FIELD(dpt_operator_call, user, 8);
FIELD(dpt_operator_call, n_samples, 16);
FIELD(dpt_operator_call, training, 24);
FIELD(dpt_operator_call, inputs, 32);
FIELD(dpt_operator_call, output, 40);
FIELD(dpt_operator_call, output_gradient, 48);
FIELD(dpt_operator_call, input_gradients, 56);
FIELD(dpt_operator_call, why, 64);

FIELD(dpt_operator_options, size, 0);
FIELD(dpt_operator_options, height, 8);
FIELD(dpt_operator_options, width, 16);
FIELD(dpt_operator_options, channels, 24);
FIELD(dpt_operator_options, elements, 32);
FIELD(dpt_operator_options, forward, 40);
FIELD(dpt_operator_options, backward, 48);
FIELD(dpt_operator_options, user, 56);
FIELD(dpt_operator_options, deterministic, 64);

FIELD(dpt_loss_call, size, 0);
FIELD(dpt_loss_call, user, 8);
FIELD(dpt_loss_call, n_samples, 16);
FIELD(dpt_loss_call, training, 24);
FIELD(dpt_loss_call, outputs, 32);
FIELD(dpt_loss_call, targets, 40);
FIELD(dpt_loss_call, labels, 48);
FIELD(dpt_loss_call, losses, 56);
FIELD(dpt_loss_call, gradients, 64);
FIELD(dpt_loss_call, hits, 72);
FIELD(dpt_loss_call, why, 80);

FIELD(dpt_weights_info, size, 0);
FIELD(dpt_weights_info, model, 8);
FIELD(dpt_weights_info, dataset, 72);
FIELD(dpt_weights_info, height, 136);
FIELD(dpt_weights_info, width, 144);
FIELD(dpt_weights_info, channels, 152);
FIELD(dpt_weights_info, classes, 160);
FIELD(dpt_weights_info, class_names, 168);
FIELD(dpt_weights_info, stat_channels, 176);
FIELD(dpt_weights_info, mean, 184);
FIELD(dpt_weights_info, deviation, 200);
FIELD(dpt_weights_info, type, 216);
FIELD(dpt_weights_info, adapters, 224);
FIELD(dpt_weights_info, loss, 228);
FIELD(dpt_weights_info, huber_delta, 232);

/* ---- Structs without a size, which do not change -----------------------------------------------
 */

FROZEN(dpt_augment_options, 24);
FIELD(dpt_augment_options, crop_padding, 0);
FIELD(dpt_augment_options, flip, 8);
FIELD(dpt_augment_options, erase, 12);
FIELD(dpt_augment_options, resized_crop, 16);

FROZEN(dpt_jitter_options, 16);
FIELD(dpt_jitter_options, brightness, 0);
FIELD(dpt_jitter_options, contrast, 4);
FIELD(dpt_jitter_options, saturation, 8);
FIELD(dpt_jitter_options, hue, 12);

FROZEN(dpt_randaugment_options, 16);
FIELD(dpt_randaugment_options, ops, 0);
FIELD(dpt_randaugment_options, magnitude, 8);

FROZEN(dpt_dataset_array, 96);
FIELD(dpt_dataset_array, name, 0);
FIELD(dpt_dataset_array, dtype, 8);
FIELD(dpt_dataset_array, rank, 16);
FIELD(dpt_dataset_array, shape, 24);
FIELD(dpt_dataset_array, data, 88);

FROZEN(dpt_init, 16);
FIELD(dpt_init, kind, 0);
FIELD(dpt_init, deviation, 8);

FROZEN(dpt_input_options, 40);
FIELD(dpt_input_options, name, 0);
FIELD(dpt_input_options, height, 8);
FIELD(dpt_input_options, width, 16);
FIELD(dpt_input_options, channels, 24);
FIELD(dpt_input_options, ids, 32);

FROZEN(dpt_interval, 24);
FIELD(dpt_interval, steps, 0);
FIELD(dpt_interval, epochs, 8);
FIELD(dpt_interval, seconds, 16);

FIELD(dpt_parameter_group, pattern, 0);
FIELD(dpt_parameter_group, lr_factor, 8);
FIELD(dpt_parameter_group, weight_decay, 12);
FIELD(dpt_parameter_group, has_weight_decay, 16);
FIELD(dpt_parameter_group, frozen, 17);
FROZEN(dpt_parameter_group, 24);

FROZEN(dpt_dataset_place, 24);
FIELD(dpt_dataset_place, name, 0);
FIELD(dpt_dataset_place, directory, 8);
FIELD(dpt_dataset_place, part, 16);

FROZEN(dpt_picture_shape, 32);
FIELD(dpt_picture_shape, height, 0);
FIELD(dpt_picture_shape, width, 8);
FIELD(dpt_picture_shape, channels, 16);
FIELD(dpt_picture_shape, scaled, 24);
FIELD(dpt_picture_shape, unoriented, 25);

FROZEN(dpt_schedule, 32);
FIELD(dpt_schedule, kind, 0);
FIELD(dpt_schedule, warmup_steps, 8);
FIELD(dpt_schedule, every, 16);
FIELD(dpt_schedule, factor, 24);
FIELD(dpt_schedule, min_lr, 28);

FROZEN(dpt_split, 16);
FIELD(dpt_split, kind, 0);
FIELD(dpt_split, value, 8);

FROZEN(dpt_value, 4);
FIELD(dpt_value, id, 0);

/* ---- Programs of other releases -------------------------------------------------------------- */

static bool opened(test *t, dpt_context **context, dpt_dataset **data)
{
    return CHECK_OK(dpt_context_create_with(NULL, context)) &&
           CHECK_OK(dpt_dataset_open(*context, "synthetic:4x4x1:3:64", NULL, DPT_TRAIN, data));
}

/* Options and results whose size was forgotten are refused before anything is done. */
static void sizes_are_needed(test *t)
{
    dpt_context *context = NULL, *none = NULL;
    dpt_dataset *data = NULL;
    dpt_model *model = NULL;
    CHECK_STATUS(dpt_context_create_with(&(dpt_context_options){.device_timeout = 1}, &none),
                 DPT_E_INVALID);
    CHECK(none == NULL);
    REQUIRE(opened(t, &context, &data));
    REQUIRE_OK(dpt_model_create(context, "small", &model));
    const dpt_value x = dpt_flatten(model, dpt_input(model, 4, 4, 1));
    CHECK(dpt_linear(model, x, "fc", &(dpt_linear_options){.out = 3}).id == 0);
    CHECK_STATUS(dpt_model_finish(model, x), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(context), "dpt_linear_options.size is 0");
    CHECK_CONTAINS(dpt_error_message(context), "layer fc");
    dpt_dataset_info info = {.count = 7};
    dpt_dataset_describe(data, &info);
    CHECK_SIZE(info.count, 7);
    dpt_model_destroy(model);
    dpt_dataset_destroy(data);
    dpt_context_destroy(context);
}

/* A program of an earlier release knows only the first fields: the call fills these and writes
   nothing behind them. */
static void shorter_structs_are_filled(test *t)
{
    enum { KNOWN = offsetof(dpt_dataset_info, channels) };
    dpt_context *context = NULL;
    dpt_dataset *data = NULL;
    REQUIRE(opened(t, &context, &data));
    dpt_dataset_info info = {.size = KNOWN, .channels = 77, .outputs = 78};
    dpt_dataset_describe(data, &info);
    CHECK_SIZE(info.size, KNOWN);
    CHECK_SIZE(info.count, 64);
    CHECK_SIZE(info.width, 4);
    CHECK_SIZE(info.channels, 77);
    CHECK_SIZE(info.outputs, 78);
    dpt_dataset_destroy(data);
    dpt_context_destroy(context);
}

/* A program of a later release has more fields: those that the library does not know must be 0 in
   options, and become 0 in results. */
static void longer_structs_are_taken(test *t)
{
    struct {
        dpt_context_options known;
        size_t later;
    } options = {.known = {.size = sizeof options}};
    struct {
        dpt_dataset_info known;
        size_t later;
    } info = {.known = {.size = sizeof info}, .later = 5};
    dpt_context *context = NULL;
    dpt_dataset *data = NULL;
    REQUIRE_OK(dpt_context_create_with(&options.known, &context));
    options.later = 1;
    dpt_context *none = NULL;
    CHECK_STATUS(dpt_context_create_with(&options.known, &none), DPT_E_INVALID);
    REQUIRE_OK(dpt_dataset_open(context, "synthetic:4x4x1:3:64", NULL, DPT_TRAIN, &data));
    dpt_dataset_describe(data, &info.known);
    CHECK_SIZE(info.known.count, 64);
    CHECK_SIZE(info.later, 0);
    dpt_dataset_destroy(data);
    dpt_context_destroy(context);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"sizes_are_needed", sizes_are_needed},
        {"shorter_structs_are_filled", shorter_structs_are_filled},
        {"longer_structs_are_taken", longer_structs_are_taken},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
