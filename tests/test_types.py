"""Types: mypy agrees with the package, and knows the public names by the stub."""

import subprocess
import sys

import pytest

from tests import layers


def checked(*what):
    """What mypy, set up in pyproject.toml, says of these; its exit status is 1 or 0."""
    mypy = [sys.executable, "-m", "mypy", "--config-file", str(layers.SETTINGS)]
    done = subprocess.run(
        [*mypy, *what], cwd=layers.ROOT, capture_output=True, text=True
    )
    assert done.returncode in (0, 1), done.stderr
    return done


def test_types_agree_in_the_whole_package():
    done = checked()
    assert done.stdout.startswith("Success"), done.stdout


CALLS = {
    "cl.launch(print, world_size=4)": "",
    "cl.launch(print, world_size='4')": '"launch" has incompatible type "str"',
    "cl.hint(1, 2, 3, 4)": 'Too many arguments for "hint"',
    "cl.lunch": 'has no attribute "lunch"',
    "cl.plot_steps": 'has no attribute "plot_steps"',  # an old name
}


@pytest.mark.parametrize(("call", "wrong"), CALLS.items(), ids=list(CALLS))
def test_a_checker_knows_the_public_names_and_their_parameters(tmp_path, call, wrong):
    file = tmp_path / "call.py"
    file.write_text(f"import course_lib as cl\n\n{call}\n")
    done = checked(str(file))
    assert (wrong in done.stdout) if wrong else done.returncode == 0
