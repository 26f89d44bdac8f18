# SPDX-License-Identifier: Apache-2.0
"""`ocibridge completion`, and the question that its scripts ask: `ocibridge __complete WORD…`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from . import options
from .output import result

PROTOCOL = "__complete"
"""First argument of the question; the last one is the word that is being typed."""

_BASH = r"""# bash completion for ocibridge: source <(ocibridge completion bash)
_ocibridge() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("${line%%$'\t'*}")
    done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _ocibridge ocibridge"""

_ZSH = r"""#compdef ocibridge
# zsh completion for ocibridge: ocibridge completion zsh > "${fpath[1]}/_ocibridge"
_ocibridge() {
    local line
    local -a found
    for line in "${(@f)$(${words[1]} __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        [[ -n $line ]] && found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done
    if (( $#found )); then _describe ocibridge found; else _files; fi
}
if [[ $funcstack[1] == _ocibridge ]]; then _ocibridge "$@"; else compdef _ocibridge ocibridge; fi"""

_FISH = r"""# fish completion for ocibridge: ocibridge completion fish > ~/.config/fish/completions/ocibridge.fish
function __ocibridge_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    $words[1] __complete $words[2..-1] "$current" 2>/dev/null
end
complete -c ocibridge -f -n '__ocibridge_complete | string length -q' -a '(__ocibridge_complete)'"""

_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def add(commands: options.Commands[Any]) -> None:
    """Declare the command."""
    parser = options.add_command(
        commands, "completion", "Print a shell completion script.", "source <(ocibridge completion bash)"
    )
    parser.set_defaults(run=run)
    parser.add_argument("shell", metavar="SHELL", choices=tuple(_SCRIPTS), help="bash, zsh or fish")


def run(args: argparse.Namespace) -> None:
    """Print the script."""
    result(_SCRIPTS[args.shell])


def candidates(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    """What may stand in place of the last word, as `word TAB help`; nothing means a file, which the shell knows.

    Args:
        parser: The whole command line.
        words: The words after the program's name. bash splits at `=` and `:`, too.
    """
    *before, current = words or [""]
    before = [word for word in before if word != "="]
    current = current.removeprefix("=")
    positionals = _positionals(parser)
    waiting: argparse.Action | None = None
    for word in before:
        if waiting is not None:
            waiting = None
        elif word.startswith("-"):
            option = parser._option_string_actions.get(word)
            waiting = option if option and option.nargs is None else None
        elif positionals:
            action = positionals.pop(0)
            if isinstance(action, argparse._SubParsersAction) and word in action.choices:
                parser = action.choices[word]
                positionals = _positionals(parser)
    name, equals, _ = current.partition("=")
    if waiting is None and equals and (option := parser._option_string_actions.get(name)):
        found = [(f"{name}={choice}", help) for choice, help in _choices(option)]
    elif waiting is None and current.startswith("-"):
        found = [(name, each.help) for each in _visible(parser) for name in each.option_strings]
    else:
        asked = waiting or (positionals[0] if positionals else None)
        found = _choices(asked) if asked else []
    return [f"{name}\t{help or ''}" for name, help in found if name.startswith(current)]


def _positionals(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if not action.option_strings]


def _visible(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if action.help != argparse.SUPPRESS]


def _choices(action: argparse.Action) -> list[tuple[str, str | None]]:
    if isinstance(action, argparse._SubParsersAction):
        return [(each.dest, each.help) for each in action._choices_actions]
    return [(str(choice), None) for choice in action.choices or ()]
