"""`vcctl completion`: completion scripts of shells, and the hidden command they call."""

import argparse
import asyncio
from collections.abc import Callable, Iterable, Sequence

from volcano.cli.completion.candidates import NameRequest, complete, encode
from volcano.cli.program import parser_of
from volcano.cli.session import Session

PROGRAMS = ("vcctl", "vsub", "vjobs", "vqueues", "vcancel", "vsuspend", "vresume")
TIMEOUT = 2.0  # seconds; the user is waiting at the prompt

BASH = r"""# bash completion: put `source <(vcctl completion bash)` into ~/.bashrc
_vcctl() {
    local program="${COMP_WORDS[0]##*/}" tool=vcctl word line prefix="" glued="" directive=":4" i last
    [[ $program == vcctl ]] && tool="${COMP_WORDS[0]}"
    local -a words=()
    # bash cuts --flag=value into three words
    for ((i = 1; i <= COMP_CWORD; i++)); do
        word="${COMP_WORDS[i]}"
        last=$((${#words[@]} - 1))
        if [[ $last -ge 0 && ${words[last]} == -* && ( $word == "=" || -n $glued ) ]]; then
            words[last]+="$word"
            if [[ $word == "=" ]]; then glued=yes; else glued=""; fi
        else
            words+=("$word")
            glued=""
        fi
    done
    last=$((${#words[@]} - 1))
    [[ ${words[last]} == -*=* ]] && prefix="${words[last]%%=*}="
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ $line == :[0-9]* ]]; then
            directive="$line"
        else
            line="${line%%$'\t'*}"
            COMPREPLY+=("${line#"$prefix"}")
        fi
    done < <("$tool" __complete --program "$program" -- "${words[@]}" 2>/dev/null)
    [[ $directive == ":0" ]] && compopt -o default 2>/dev/null
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
    return 0
}
complete -F _vcctl @PROGRAMS@
"""

ZSH = r"""#compdef @PROGRAMS@
# zsh completion: put `source <(vcctl completion zsh)` into ~/.zshrc, after compinit
_vcctl() {
    local program="${words[1]:t}" tool=vcctl line directive=":4"
    local -a answers described
    [[ $program == vcctl ]] && tool="${words[1]}"
    answers=("${(@f)$("$tool" __complete --program "$program" -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    for line in "${answers[@]}"; do
        if [[ $line == :[0-9]* ]]; then
            directive="$line"
        elif [[ $line == *$'\t'* ]]; then
            described+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
        elif [[ -n $line ]]; then
            described+=("${line//:/\\:}")
        fi
    done
    (( ${#described} )) && _describe -V 'vcctl' described
    [[ $directive == ":0" ]] && _files
    return 0
}
compdef _vcctl @PROGRAMS@
"""

FISH = r"""# fish completion: put `vcctl completion fish | source` into ~/.config/fish/config.fish
function __vcctl_complete
    set -l tokens (commandline -opc)
    set -l current (commandline -ct)
    set -l program (basename $tokens[1])
    set -e tokens[1]
    set -l answers (vcctl __complete --program $program -- $tokens "$current" 2>/dev/null)
    for line in $answers
        if string match -qr '^:[0-9]' -- $line
            if test "$line" = ":0"
                __fish_complete_path "$current"
            end
        else
            echo $line
        end
    end
end
for program in @PROGRAMS@
    complete -c $program -f -a '(__vcctl_complete)'
end
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=sorted(SCRIPTS), metavar="SHELL", help="bash, zsh or fish")


async def run(arguments: argparse.Namespace, session: Session) -> int:
    session.write(script(arguments.shell, "vcctl", PROGRAMS), end="")
    return 0


def script(shell: str, tool: str, programs: Sequence[str]) -> str:
    """Completion script of some programs; `tool` is the one that has the command `__complete`."""
    return SCRIPTS[shell].replace("@PROGRAMS@", " ".join(programs)).replace("vcctl", tool)


def answer_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--program", default="vcctl", choices=PROGRAMS)
    parser.add_argument("words", nargs="*")


async def answer(arguments: argparse.Namespace, session: Session) -> int:
    """Prints completion candidates; errors are not shown to the shell."""
    parser, words, program = parser_of(arguments.program), arguments.words, arguments.program
    wanted: list[NameRequest] = []
    found = complete(parser, words, _collecting(wanted), program)
    if wanted:
        known = {request.sort: await _names(request, arguments) for request in wanted}
        found = complete(parser, words, lambda request: known[request.sort], program)
    session.write(encode(found))
    return 0


def _collecting(wanted: list[NameRequest]) -> Callable[[NameRequest], Iterable[str]]:
    def note(request: NameRequest) -> Iterable[str]:
        wanted.append(request)
        return ()

    return note


async def _names(request: NameRequest, arguments: argparse.Namespace) -> list[str]:
    """Names matching a request with the flags typed so far; empty on error or timeout."""
    from volcano.cli.completion.live_names import names

    try:
        async with asyncio.timeout(TIMEOUT):
            return await names(request, arguments)
    except Exception:  # completion without names is better than an error at the prompt
        return []
