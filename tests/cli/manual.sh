#!/usr/bin/env bash
# Man pages and completions, which `dptrain manual` writes: every option that help has is in them, and
# the shells that are installed take them.
. "$SRC/tests/cli/kit.bash"

refuse 2 "manual writes to one directory: dptrain manual DIR" manual
refuse 1 "cannot write missing/folder: No such file" manual missing/folder
check "the build's command is not in help" eval '! "$DPTRAIN" --help | grep -q manual'
check "it writes" "$DPTRAIN" manual out
commands=$("$DPTRAIN" --help | sed -n '/^Commands$/,/^$/s/^  \([a-z]*\) .*/\1/p')
check "commands: $commands" [ "$(wc -w <<<"$commands")" -ge 11 ]
check "a page of each command and one of dptrain" \
    [ "$(ls out/man1)" = "$(printf 'dptrain-%s.1\n' $commands dptrain.1 | sed s/dptrain-dptrain.1.1/dptrain.1/ | sort)" ]

# options COMMAND: what its help has.
options() { "$DPTRAIN" "$1" --help | grep -oE '^ {2,6}(-., )?--[a-z0-9-]+=?' | grep -oE -- '--.*' | sort; }

. out/bash/dptrain
n=0
for command in $commands; do
    page=$(sed -n '/^\.SH OPTIONS/,$p' "out/man1/dptrain-$command.1" |
        sed 's/\\fB\|\\fR\|\\fI//g; s/\\-/-/g')
    of_bash=$(_dptrain_options "$command" | tr ' ' '\n' | sort)
    check "bash has the options of $command" [ "$of_bash" = "$(options "$command")" ]
    of_zsh=$(sed -n "/^    $command)\$/,/^        ;;/p" out/zsh/_dptrain | grep -oE "'--[a-z0-9-]+=?\[" |
        tr -d "'[" | sort)
    check "zsh has the options of $command" [ "$of_zsh" = "$(options "$command")" ]
    of_fish=$(grep -E "^complete -c dptrain -n '__dptrain_is [a-z ]*\b$command\b[a-z ]*'.* -l " out/fish/dptrain.fish |
        sed 's/.* -l \([a-z0-9-]*\) .*/--\1/' | sort)
    check "fish has the options of $command" [ "$of_fish" = "$(options "$command" | tr -d = | sort)" ]
    for option in $(options "$command"); do
        argument=
        case $option in *=) argument=.+ ;; esac
        check "the page of $command has $option" grep -qE -- "^(-., )?$option$argument\$" <<<"$page"
        n=$((n + 1))
    done
    check "the page of $command has no other" \
        [ "$(grep -cE -- '^(-., )?--[a-z]' <<<"$page")" -eq "$(options "$command" | wc -l)" ]
    check "dptrain's page names $command" grep -q "^\.B $command\$" out/man1/dptrain.1
done
check "all commands together have $n options" test $n -gt 200
for word in "EXIT STATUS" ENVIRONMENT EXAMPLES DPTRAIN_DATA "mpirun"; do
    check "dptrain's page has $word" grep -q "$word" out/man1/dptrain.1
done

# ---- Pages, by the programs that set them

if command -v mandoc >/dev/null; then
    mandoc -T lint -W warning out/man1/*.1 >lint 2>&1
    check "mandoc: $(grep -v 'missing date' lint | head -3)" eval '! grep -qv "missing date" lint'
fi
if command -v man >/dev/null && command -v groff >/dev/null; then
    for page in out/man1/*.1; do
        MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" >/dev/null 2>warnings
        check "man: $page: $(head -2 warnings)" [ ! -s warnings ]
    done
fi

# ---- bash

mkdir -p files/folder
touch files/a.toml "files/with blank.toml"
cd files || exit 1
# complete_line LINE WORD...: these are offered for the end of the line.
complete_line() {
    local line=$1
    shift
    COMP_LINE=$line COMP_POINT=${#line} COMPREPLY=()
    _dptrain "$DPTRAIN" "" ""
    check "bash: '$line' offers ${COMPREPLY[*]}" [ "${COMPREPLY[*]}" = "$*" ]
}
complete_line 'dptrain ' $commands
complete_line 'dptrain ev' eval
complete_line 'dptrain eval --ch' --checkpoint=
complete_line 'dptrain --optimizer ' sgd adamw
complete_line 'dptrain --optimizer=a' adamw
complete_line 'dptrain plan --quiet --schedule=cos' cosine cosine-nanogpt cosine-transformers
complete_line 'dptrain train --model vg' vgg11
complete_line 'dptrain --augment flip,cr' flip,crop
complete_line 'dptrain --config a' a.toml
complete_line 'dptrain --config=w' "with blank.toml"
complete_line 'dptrain --checkpoint ' folder
complete_line 'dptrain --checkpoint-e' --checkpoint-every=
complete_line 'dptrain --lr '
complete_line 'dptrain bench ' mix allreduce
complete_line 'dptrain compare a' a.toml
complete_line 'dptrain eval a'
complete_line 'dptrain --devices cp' cpu
complete_line 'dptrain --devices=cpu,al' cpu,all
cd .. || exit 1
if command -v shellcheck >/dev/null; then
    shellcheck -s bash out/bash/dptrain >lint 2>&1
    check "shellcheck: $(head -5 lint)" [ ! -s lint ]
fi

# ---- zsh: the specifications that it gets, and that its own parser takes them

if command -v zsh >/dev/null; then
    check "zsh reads its file" zsh -n out/zsh/_dptrain
    for command in $commands; do
        zsh -f -c "words=(dptrain $command '') CURRENT=3
            _arguments() { print -rl -- \"\$@\" }
            . out/zsh/_dptrain" >specifications 2>zsh.err
        check "zsh: specifications of $command: $(head -1 zsh.err)" \
            [ "$(grep -c '^--' specifications)" -eq "$(options "$command" | wc -l)" ]
        check "zsh: $command: $(grep -vE '^(--[a-z0-9-]+=?|-[a-zA-Z])\[([^]]|\\\])+\](:([^:]|\\:)+:.+)?$|^(1|\*):' specifications | head -1)" \
            [ -z "$(grep -vE '^(--[a-z0-9-]+=?|-[a-zA-Z])\[([^]]|\\\])+\](:([^:]|\\:)+:.+)?$|^(1|\*):' specifications)" ]
    done
fi

# ---- fish

# of_fish LINE WORD...: fish offers these, among others.
of_fish() {
    local line=$1 word
    shift
    HOME=$PWD fish --no-config -c "source out/fish/dptrain.fish; complete -C '$line'" >fish.out 2>fish.err </dev/null
    for word in "$@"; do
        check "fish: '$line' offers $word: $(cut -f1 fish.out | head -5 | tr '\n' ' ')$(head -1 fish.err)" \
            eval 'cut -f1 fish.out | grep -qxF -- "$word"'
    done
}
if command -v fish >/dev/null; then
    check "fish reads its file" fish --no-execute out/fish/dptrain.fish
    of_fish "dptrain " $commands
    of_fish "dptrain eval --check" --checkpoint
    check "fish: no option of other commands" eval '! grep -q keep fish.out'
    of_fish "dptrain --optimizer " sgd adamw
    of_fish "dptrain plan --model=res" --model=resnet18
    of_fish "dptrain bench " mix allreduce
fi
finish
