"""Commands that start a kernel in a world of its own, where something is wrong."""

import os
import subprocess

from tests import forked

_AS_ROOT = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
_UNSHARE = ["unshare", *_AS_ROOT, "--mount", "--uts"]


def world(script):
    """Run `script` in new namespaces, then there the command that follows."""
    return [*_UNSHARE, "sh", "-ec", f'{script}\nexec "$@"', "sh"]


def inside(script, **env):
    """Options of a kernel in such a world; it is forked into it where it can be."""
    if os.geteuid():
        return {"within": world(script), "env": env}
    return {"env": {forked.WORLD: script, **env}}


def works(script="mount -t tmpfs tmpfs /mnt"):
    """True where this user may make such worlds."""
    try:
        return (
            subprocess.run([*world(script), "true"], capture_output=True).returncode
            == 0
        )
    except OSError:
        return False


def full(folder, size="64k"):
    """Mount a small file system over `folder` and leave no room in it."""
    fill = f'dd if=/dev/zero of="{folder}/full" bs=4k 2>/dev/null || true'
    return f'mount -t tmpfs -o size={size} tmpfs "{folder}"\n{fill}'
