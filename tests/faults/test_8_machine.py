"""Row 8: the machine has no room, no free port, an odd name, no working folder."""

import contextlib
import socket

import pytest

from tests.fault_table import case
from tests.faults.cells import SOON, failed, opened, value
from tests.faults.worlds import full, inside, works, world
from tests.kernels import error, shown

needs_worlds = pytest.mark.skipif(not works(), reason="needs unshare --mount --uts")
MEETS = """def total(rank, world_size):
    dist.init_process_group("gloo")
    x = torch.ones(1000)
    dist.all_reduce(x)
    return x[0].item()

now()
list(cl.launch(total, world_size=2))"""
BY_PORT = MEETS.replace(
    '"gloo"', '"gloo", "tcp://127.0.0.1:29500", rank=rank, world_size=world_size'
)


def meet(kernel, cell=MEETS):
    """True if two ranks meet and reduce, soon."""
    return "[2.0, 2.0]" in value(kernel, cell) and kernel.waited < SOON


@pytest.fixture(scope="module")
def no_shared_memory():
    kernel = opened(**inside(full("/dev/shm")))
    yield kernel
    kernel.close()


@needs_worlds
@pytest.mark.fault(8, "/dev/shm full")
def test_launches_need_no_shared_memory(no_shared_memory):
    assert meet(no_shared_memory)
    cell = "cl.launch(lambda rank, world_size: torch.ones(1 << 20) * rank)[1].sum()"
    assert "tensor(1048576.)" in value(no_shared_memory, cell)


SHARES = """def train(rank, world_size):
    now()
    x = torch.ones(100_000).share_memory_()

cl.launch(train)"""
LOADS = """def train(rank, world_size):
    data = torch.utils.data.TensorDataset(torch.ones(8, 100_000))
    now()
    for batch in torch.utils.data.DataLoader(data, 4, num_workers=2):
        pass

cl.launch(train)"""


@needs_worlds
@pytest.mark.parametrize(
    "cell, line",
    [
        case(8, "a shared tensor, /dev/shm full", SHARES, "-->   3      x = torch"),
        case(8, "DataLoader workers, /dev/shm full", LOADS, "-->   4      for batch"),
    ],
)
def test_full_shared_memory_is_named_with_what_helps(no_shared_memory, cell, line):
    text = failed(no_shared_memory, cell)
    # torch 2.11 gives no reason in the first case
    words = "No space left on device", "unable to allocate shared memory"
    assert "of 2 raised" in text and any(word in text for word in words)
    assert line in text
    assert "Shared memory, /dev/shm, has 0.0 MB of 0.1 MB free." in text
    assert "num_workers=0 needs none" in text


@needs_worlds
@pytest.mark.fault(8, "DataLoader workers, /dev/shm too small")
def test_small_shared_memory_is_named_with_what_helps():
    kernel = opened(**inside("mount -t tmpfs -o size=1m tmpfs /dev/shm"))
    try:
        text = failed(kernel, LOADS)
    finally:
        kernel.close()
    assert "of 2 raised RuntimeError" in text
    assert "-->   4      for batch in torch.utils.data.DataLoader" in text
    assert "of 1.0 MB free" in text and "num_workers=0 needs none" in text


@needs_worlds
@pytest.mark.fault(8, "temporary folder full")
def test_launches_need_no_room_in_the_temporary_folder():
    kernel = opened(within=world(full("$TMPDIR")))
    cell = """def train(rank, world_size):
    now()
    torch.save(torch.ones(10_000), os.path.join(os.environ["TMPDIR"], "x.pt"))

cl.launch(train)"""
    try:
        assert meet(kernel)
        assert "2" in value(kernel, "len(cl.launch(rank_of, trace=True, world_size=2))")
        assert "TMPDIR" in failed(kernel, cell)
    finally:
        kernel.close()


READ_ONLY = """mount -t tmpfs tmpfs /mnt
mount -t tmpfs -o ro tmpfs "$TMPDIR"
for folder in /tmp /var/tmp; do
    mount --bind $folder $folder
    mount -o remount,ro,bind $folder
done
cd /mnt"""


@needs_worlds
@pytest.mark.fault(8, "temporary folder read-only")
def test_launches_need_no_temporary_folder(tmp_path):
    kernel = opened(within=world(READ_ONLY))
    try:
        meets = MEETS.replace("now()", "")
        assert "[2.0, 2.0]" in value(kernel, meets)
        assert "2" in value(kernel, "len(cl.launch(rank_of, trace=True, world_size=2))")
        assert "('/mnt', [])" in value(kernel, "os.getcwd(), os.listdir()")
    finally:
        kernel.close()


@contextlib.contextmanager
def taken(port=0):
    """A port of 127.0.0.1 on which somebody listens."""
    with socket.socket() as listener:
        with contextlib.suppress(OSError):  # somebody else has it: as good
            listener.bind(("127.0.0.1", port))
            listener.listen()
        yield port or listener.getsockname()[1]


@pytest.mark.fault(8, "port 29500 taken")
def test_the_usual_port_may_be_taken(kernel):
    with taken(29500):
        assert meet(kernel)
        assert meet(kernel, BY_PORT)


@pytest.mark.fault(8, "MASTER_PORT and the rest set by the user, and taken")
def test_the_users_own_master_port_does_not_matter(kernel):
    names = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK")
    with taken() as port:
        values = ("10.255.255.1", str(port), "5", "99", "7")
        kernel.run(f"os.environ.update({dict(zip(names, values))})")
        assert meet(kernel)
        assert meet(kernel, BY_PORT)
    kernel.run(f"for name in {names}: del os.environ[name]")


@pytest.mark.fault(8, "a proxy in the environment")
def test_a_proxy_does_not_matter(kernel):
    names = [f"{kind}_proxy" for kind in ("http", "https", "all", "ftp")]
    names += [name.upper() for name in names]
    kernel.run(f"os.environ.update(dict.fromkeys({names}, 'http://127.0.0.1:9'))")
    assert meet(kernel)
    kernel.run(f"for name in {names}: del os.environ[name]")


@needs_worlds
@pytest.mark.fault(8, "a host name that nobody knows")
def test_an_odd_host_name_does_not_matter():
    name = "nobody-knows.invalid"
    kernel = opened(**inside(f"hostname {name}", HOSTNAME=name))
    try:
        assert name in value(kernel, "os.uname().nodename")
        assert meet(kernel)
        assert meet(kernel, BY_PORT)
    finally:
        kernel.close()


@pytest.fixture
def silent_resolver(tmp_path):
    """A world in which each name is looked up at a server that never answers."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        try:
            server.bind(("127.0.0.153", 53))
        except OSError:
            pytest.skip("needs port 53 (root)")
        files = {"resolv.conf": "nameserver 127.0.0.153", "nsswitch.conf": "hosts: dns"}
        for name, text in {**files, "hosts": ""}.items():
            (tmp_path / name).write_text(f"{text}\n")
        binds = [f"mount --bind {f} /etc/{f.name}" for f in tmp_path.iterdir()]
        yield "\n".join([*binds, "hostname nobody-knows"]), server


@needs_worlds
@pytest.mark.fault(8, "a resolver that never answers")
def test_a_resolver_that_never_answers_costs_little(silent_resolver):
    script, server = silent_resolver
    kernel = opened(within=world(script))  # a fork keeps what it knows of the resolver
    try:
        assert meet(kernel)
        server.settimeout(SOON)
        assert server.recv(1000)  # it was asked
        for _ in range(3):
            assert meet(kernel)
        assert meet(kernel, BY_PORT.replace("127.0.0.1", "localhost"))
    finally:
        kernel.close()


@pytest.mark.fault(8, "a working folder that was deleted")
def test_a_deleted_working_folder_does_not_matter(kernel, tmp_path):
    before = value(kernel, "os.getcwd()")
    kernel.run(f"os.makedirs('{tmp_path}/gone'); os.chdir('{tmp_path}/gone')")
    kernel.run("os.rmdir(os.getcwd())")
    try:
        assert "FileNotFoundError" in error(kernel.run("os.getcwd()"))
        assert meet(kernel)
        cell = "now()\ncl.launch(lambda rank, world_size: 1 / 0)"
        assert "raised ZeroDivisionError" in failed(kernel, cell)
        kernel.run("os.environ['TORCH_SOMETHING'] = 'new'")  # starts a new server
        assert meet(kernel)
    finally:
        kernel.run(f"os.chdir({before}); del os.environ['TORCH_SOMETHING']")


@pytest.mark.fault(8, "few open files allowed")
def test_too_few_open_files_are_said_before_any_rank_starts(kernel):
    cell = """import resource
limits = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (150, limits[1]))
try:
    cl.launch(rank_of, world_size=64)
finally:
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)"""
    assert "UsageError" in error(kernel.run(cell))
    assert shown(kernel.run("os.getpid()"))
