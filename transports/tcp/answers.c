/* What a process is told when the process that it has connected to refuses it, or does not answer
   as dptrain does.  A process that comes to a job that runs has set none of the variables that the
   processes of the start share, so its messages say what its user can do. */
#include "join_parts.h"

#include <errno.h>
#include <string.h>

static const char give_first[] = "give the address of the first process of the job";

/* ---- The processes of the start -------------------------------------------------------------- */

static dpt_status tell_starter(const tcp_settings *s, const tcp_answer *answer, const char *text,
                               dpt_error *error)
{
    switch ((tcp_verdict)answer->verdict) {
    case TCP_ACCEPTED: return DPT_OK;
    case TCP_WRONG_COUNT:
        return DPT_FAIL(error, DPT_E_INVALID,
                        "DPTRAIN_PROCESSES is %zu here and %u in the process at %s: give all the "
                        "same number",
                        s->n, (unsigned)answer->value, text);
    case TCP_WRONG_RANK:
        return DPT_FAIL(error, DPT_E_INVALID,
                        "DPTRAIN_RANK is %zu here, which is the rank of the process at %s: give "
                        "each process its own",
                        s->rank, text);
    case TCP_TWICE:
        return DPT_FAIL(error, DPT_E_INVALID,
                        "DPTRAIN_RANK is %zu here, and another process of that rank has joined "
                        "already: give each process its own",
                        s->rank);
    case TCP_WRONG_TIMEOUT:
        return DPT_FAIL(error, DPT_E_INVALID,
                        "DPTRAIN_PROCESS_TIMEOUT is %g here and %g in the process at %s: give all "
                        "the same",
                        s->timeout, answer->value / 1000.0, text);
    case TCP_OTHER_PLACE:
        return DPT_FAIL(error, DPT_E_INVALID,
                        "at %s listens process %u, which was not looked for there", text,
                        (unsigned)answer->value);
    case TCP_WRONG_JOINERS:
        return DPT_FAIL(error, DPT_E_INVALID,
                        "DPTRAIN_JOINERS is %zu here and %u in the process at %s: give all the "
                        "same",
                        s->n_joiners, (unsigned)answer->value, text);
    case TCP_WRONG_SECRET:
    case TCP_NO_PLACE:
    case TCP_BUSY: break;
    }
    return DPT_FAIL(error, DPT_E_INVALID,
                    "the process at %s has another secret: give all processes the same "
                    "DPTRAIN_SECRET_FILE",
                    text);
}

/* ---- The process that comes ------------------------------------------------------------------ */

/* At its first connection. */
static dpt_status tell_comer(const tcp_answer *answer, const char *text, dpt_error *error)
{
    const unsigned value = answer->value;
    switch ((tcp_verdict)answer->verdict) {
    case TCP_ACCEPTED: return DPT_OK;
    case TCP_BUSY:
        return DPT_FAIL(error, DPT_E_STATE, "the job at %s lets no process in now", text);
    case TCP_NO_PLACE:
        if (value == 0)
            return DPT_FAIL(error, DPT_E_INVALID,
                            "the job at %s was started without DPTRAIN_JOINERS, so no process can "
                            "come: start it with DPTRAIN_JOINERS=N, where N may come",
                            text);
        return DPT_FAIL(error, DPT_E_INVALID,
                        "the job at %s lets %u process%s come in all (DPTRAIN_JOINERS), and so "
                        "many have come, also if they have ended: end it, and start it with "
                        "--resume and a larger number",
                        text, value, value == 1 ? "" : "es");
    case TCP_OTHER_PLACE:
        return DPT_FAIL(error, DPT_E_INVALID,
                        "at %s listens process %u of the job, and only the first process lets "
                        "others in: %s",
                        text, value, give_first);
    case TCP_WRONG_SECRET:
        return DPT_FAIL(error, DPT_E_INVALID,
                        "the job at %s has another secret: copy its DPTRAIN_SECRET_FILE to this "
                        "host",
                        text);
    case TCP_WRONG_COUNT:
    case TCP_WRONG_RANK:
    case TCP_TWICE:
    case TCP_WRONG_TIMEOUT:
    case TCP_WRONG_JOINERS: break; /* no answers to a process that comes */
    }
    return DPT_FAIL(error, DPT_E_INVALID,
                    "the answer of the process at %s is not known: start the same version of "
                    "dptrain in all processes",
                    text);
}

/* At a connection to a process that the first one has named.  That process may have ended, and the
   port may be that of another job, or this process is late.  The new process tries again. */
static dpt_status tell_member(const tcp_answer *answer, const target *to, dpt_error *error)
{
    switch ((tcp_verdict)answer->verdict) {
    case TCP_ACCEPTED: return DPT_OK;
    case TCP_BUSY:
    case TCP_TWICE:
        return DPT_FAIL(error, DPT_E_STATE,
                        "process %zu, at %s, still has the connection of a process that came "
                        "before",
                        to->rank, to->text);
    case TCP_WRONG_SECRET:
    case TCP_WRONG_COUNT:
    case TCP_WRONG_RANK:
    case TCP_WRONG_TIMEOUT:
    case TCP_OTHER_PLACE:
    case TCP_WRONG_JOINERS:
    case TCP_NO_PLACE: break;
    }
    return DPT_FAIL(error, DPT_E_STATE,
                    "at %s, where process %zu of the job listened, a process of another job "
                    "listens",
                    to->text, to->rank);
}

/* ---- What others call ------------------------------------------------------------------------ */

dpt_status dpt_tcp_tell_answer(const tcp_settings *settings, const tcp_answer *answer,
                               const target *to, dpt_error *error)
{
    if (!settings->comes) return tell_starter(settings, answer, to->text, error);
    if (to->kind == TCP_ENTER) return tell_comer(answer, to->text, error);
    return tell_member(answer, to, error);
}

dpt_status dpt_tcp_tell_code(int code, const target *to, dpt_error *error)
{
    if (code == ECONNRESET || code == EPIPE)
        return DPT_FAIL_NATIVE(error, DPT_E_IO, code,
                               "the process at %s has closed the connection: see its message",
                               to->text);
    return DPT_FAIL_NATIVE(error, DPT_E_IO, code, "no answer from the process at %s: %s", to->text,
                           strerror(code));
}

dpt_status dpt_tcp_tell_program(const tcp_settings *settings, const target *to, dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_INVALID, "at %s listens another program than dptrain%s%s",
                    to->text, settings->comes ? ": " : "", settings->comes ? give_first : "");
}
