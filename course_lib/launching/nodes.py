"""The agent of a launch on several nodes: an agent of torchrun for each, and the ranks.

It speaks with the kernel as `agent` does. Each agent of torchrun starts a process of
`entry` per rank; for that this agent forks the rank, with the variables and the host
name that the process of `entry` was given. So torchrun decides who is which rank, and
nobody waits for an import.
"""

import contextlib
import functools
import ipaddress
import logging
import os
import re
import secrets
import select
import selectors
import socket
import struct
import time

from course_lib.launching import agent, entry, protocol, rank_process
from course_lib.system import linux, namespaces
from course_lib.text import signal_name

HOW = ", one host name for all: this system allows no namespaces"
_FIRST = ipaddress.IPv4Address("127.0.0.10")  # of node 0; 127.0.0.1 is localhost
_GOODBYE = 2.0  # seconds that the agents of torchrun have to end when their ranks have
_FILES = 4  # of a rank: for output, result, stacks, questions
_LINES = 15  # of what an agent wrote, in an error
_NOTE = re.compile(r"I\d{4} .*?\] ")  # how PyTorch begins a line that is no warning
_ASKED = "Rendezvous'ing"  # an agent notes it when it asks to join


def main(link: socket.socket, given: list, *, files: list[int], owner: int) -> None:
    """Run one launch in this freshly forked process, which ends here."""
    ranks = {}
    nodes = _Nodes(link, protocol.Nodes(*given), files=files, owner=owner, ranks=ranks)
    agent.attend(link, ranks, nodes.run)


def host_names(count: int) -> list[str]:
    """Return names of so many nodes, in an order that sorting keeps: node0, node1, …"""
    width = len(str(count - 1))
    return [f"node{number:0{width}}" for number in range(count)]


class _Nodes:
    """The nodes of one launch: their agents of torchrun, and the ranks of all."""

    def __init__(self, link, given, *, files, owner, ranks):
        self.link, self.owner, self.ranks = link, owner, ranks
        listener, *self.inputs = files
        os.close(listener)  # the store is torchrun's
        self.job = protocol.Job(*given.job)
        self.shares, self.gpus = given.shares, given.gpus
        self.named, self.patience = given.named, given.patience
        self.names = host_names(len(self.shares))
        self.addresses = {n: str(_FIRST + k) for k, n in enumerate(self.names)}
        self.channels, self.logs, self.agents = {}, [], {}
        self.done, self.waiting = set(), {}  # ranks that returned; processes of entry
        self.events = selectors.DefaultSelector()

    def run(self):
        """Start the nodes, then serve them until the kernel closes the link."""
        if not self._receive():
            return
        if not (self.named and _works(self.names[0], self.addresses)):
            self.named = False
            protocol.send(self.link, protocol.Remark(HOW))
        name = f"course_lib-{secrets.token_hex(16)}"
        with self.events, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
            door.bind(f"\0{name}")
            door.listen(self.job.world_size)
            self.door = door
            self.events.register(door, selectors.EVENT_READ, self._open)
            self._start(name)
            until = time.monotonic() + self.patience
            wait = functools.partial(self._left, until)
            agent.watch(
                self.events, self.link, owner=self.owner, ranks=self.ranks, wait=wait
            )
            if self._left(until) == 0:
                self._break(self._late())
            self._part()

    def _receive(self):
        """Take in the files of all ranks and nodes; False if the kernel is gone."""
        while len(self.channels) < self.job.world_size:
            message, files = protocol.receive(self.link)
            if message is None:
                return False
            if isinstance(message, protocol.Start):
                self.channels[message.rank] = files[:_FILES]
                self.logs += files[_FILES:]  # with the first rank of each node
        return True

    def _start(self, name):
        """Fork an agent of torchrun for each node."""
        # bound before any of them starts, so that nobody else can take the port
        store = socket.create_server((str(_FIRST), 0))
        for node in range(len(self.shares)):
            be = functools.partial(self._be_agent, node, store, name)
            pid = agent.fork(be, unwanted=self._files())
            end = self.agents[node] = os.pidfd_open(pid)
            ended = functools.partial(self._ended, node, pid)
            self.events.register(end, selectors.EVENT_READ, ended)
        store.close()

    def _be_agent(self, node, store, name):
        os.dup2(self.logs[node], 1)
        os.dup2(self.logs[node], 2)
        if self.named:
            namespaces.become(self.names[node], self.addresses)
        linux.die_with_parent()
        _torchrun(self._arguments(node, store, name), store if node == 0 else None)

    def _arguments(self, node, store, name):
        """Return the command line of torchrun on this node, without its first word."""
        port, size = store.getsockname()[1], len(self.shares)
        host = self.names[0]
        conf = []
        if not self.named:
            host = self.addresses[host]
            conf = [f"--local-addr={self.addresses[self.names[node]]}"]
            conf += [f"--rdzv-conf=is_host={int(node == 0)}"]
        return [
            f"--nnodes={size}",
            f"--nproc-per-node={self.shares[node]}",
            "--rdzv-backend=c10d",
            f"--rdzv-endpoint={host}:{port}",
            f"--rdzv-id=launch{os.getppid()}",
            "--max-restarts=0",
            *conf,
            f"--log-dir={os.devnull}",  # else it makes a folder that stays
            entry.__file__,
            name,
        ]

    def _files(self):
        """Return the open files that are this agent's alone."""
        channels = [file for files in self.channels.values() for file in files]
        ends = [forked.end for forked in self.ranks.values()]
        open_sockets = [self.link, self.door, *self.waiting.values()]
        numbers = [sock.fileno() for sock in open_sockets]
        mine = [self.owner, self.events.fileno(), *self.agents.values()]
        return [*mine, *numbers, *channels, *ends]

    def _open(self):
        """Fork a rank for the process of `entry` that asks for one."""
        asking, _ = self.door.accept()
        peer = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        pid, user, _ = struct.unpack("3i", peer)
        if user != os.getuid():
            asking.close()
            return
        environ = _given(pid)
        rank, node = int(environ["RANK"]), int(environ["GROUP_RANK"])
        channel = self.channels.pop(rank)
        self.waiting[rank] = asking
        place = protocol.Place(rank, self.job, environ | self.gpus[node])
        host = pid if self.named else None
        be = functools.partial(_be_rank, place, (*self.inputs, *channel), host)
        pid = agent.fork(be, unwanted=[*self._files(), *self.logs])
        for file in channel:
            os.close(file)
        self.ranks[rank] = forked = agent.Forked(pid, os.pidfd_open(pid))
        ended = functools.partial(self._returned, rank)
        self.events.register(forked.end, selectors.EVENT_READ, ended)
        where = f"local rank {environ['LOCAL_RANK']} of {self.names[node]}"
        protocol.send(self.link, protocol.RankStarted(rank, pid, where))

    def _returned(self, rank):
        """Report the end of a rank; what torchrun started for it ends after a return.

        After a failure it does not: torchrun would stop the others, who are to be asked
        where they are.
        """
        forked = self.ranks[rank]
        self.events.unregister(forked.end)
        if agent.report_end(self.link, rank, forked.pid) == 0:
            self.done.add(rank)
            with contextlib.suppress(OSError):  # somebody has killed it
                self.waiting[rank].send(b"!")

    def _ended(self, node, pid):
        """Return True if an agent of torchrun has ended before the ranks."""
        self.events.unregister(self.agents[node])
        if len(self.done) == self.job.world_size:
            return False
        code = agent.exit_code(pid)
        how = f"was killed by {signal_name(-code)}"
        how = f"ended with exit code {code}" if code >= 0 else how
        text = f"{self.names[node]} is lost: its agent of torchrun {how}"
        self._break(f"{text}.{self._last_words(node)}")
        return True

    def _break(self, text):
        protocol.send(self.link, protocol.LaunchBroken(text))

    def _left(self, until):
        """Return the seconds that the nodes still have to join; None once all have."""
        if not self.channels:
            return None
        return max(0.0, until - time.monotonic())

    def _late(self):
        """Which nodes did not join, and what their agents wrote."""
        numbers = range(len(self.shares))
        late = [n for n in numbers if sum(self.shares[:n]) in self.channels]
        # those that asked to join wait for the others
        late = [n for n in late if _ASKED not in self._log(n)] or late
        who = ", ".join(self.names[node] for node in late)
        words = "".join(map(self._last_words, late))
        return f"{who} never joined: no rank began within {self.patience:g} s.{words}"

    def _last_words(self, node):
        """Return what an agent wrote last, as lines; of its notes only the newest."""
        lines = [line for line in self._log(node).splitlines() if line.strip()]
        matches = [(_NOTE.match(line), line) for line in lines]
        notes = [line[match.end() :] for match, line in matches if match]
        words = [line for match, line in matches if not match] or notes[-1:]
        return "".join(f"\n{self.names[node]}: {word}" for word in words[-_LINES:])

    def _log(self, node):
        return os.pread(self.logs[node], 1 << 20, 0).decode(errors="replace")

    def _part(self):
        """Let the agents of torchrun end by themselves, if all has gone well."""
        if len(self.done) < self.job.world_size:
            return
        until = time.monotonic() + _GOODBYE
        for end in self.agents.values():
            select.select([end], [], [], max(0.0, until - time.monotonic()))


def _be_rank(place, files, host):
    """Be a rank, with the host name of the process `host`, if that has its own."""
    if host:
        namespaces.enter(host)
    rank_process.main(place, files)


def _works(host, addresses):
    """Return True if a process may have a host name of its own: a child tries it."""

    def child():
        with contextlib.suppress(OSError):
            namespaces.become(host, addresses)
            os._exit(0)
        os._exit(1)

    return os.waitpid(agent.fork(child), 0)[1] == 0


def _given(pid):
    """Return the variables that torchrun set for a process."""
    with open(f"/proc/{pid}/environ", errors="surrogateescape") as file:
        pairs = (pair.partition("=") for pair in file.read().split("\0") if pair)
        return {k: v for k, _, v in pairs if os.environ.get(k) != v}


def _torchrun(arguments, store):
    """Be `torchrun` with these arguments; the store of node 0 gets its socket."""
    from torch.distributed import run
    from torch.distributed.elastic.rendezvous import c10d_rendezvous_backend as c10d

    if store:
        file = store.detach()
        c10d.TCPStore = functools.partial(c10d.TCPStore, master_listen_fd=file)
    # not by LOGLEVEL: that is read at an import, which may be over, as where a check
    # uses torch.distributed.checkpoint; and the ranks would get it
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("torch.distributed."):
            logging.getLogger(name).setLevel(logging.INFO)
    run.main(arguments)
