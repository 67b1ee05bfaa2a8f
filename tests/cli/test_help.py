"""Every option and positional of every command says what it is for; ``--version`` says which one this is."""

import argparse
from collections.abc import Iterator
from importlib.metadata import version

import pytest

from overstory import cli


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from commands(below)


@pytest.mark.parametrize("command", list(commands(cli.parser())), ids=lambda command: command.prog)
def test_every_argument_has_help(command: argparse.ArgumentParser) -> None:
    actions = [action for action in command._actions if not isinstance(action, argparse._SubParsersAction)]
    silent = [action.option_strings or action.dest for action in actions if not (action.help or "").strip()]
    assert silent == []
    assert command.format_help()


def test_all_commands_are_walked() -> None:
    walked = {command.prog for command in commands(cli.parser())}
    assert {"overstory", "overstory diff", "overstory filter bench", "overstory scenario import"} <= walked


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"overstory {version('overstory')}\n"
