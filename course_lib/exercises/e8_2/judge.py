"""Exercise 8.2, decided: what five launch commands would start; nothing is run."""

import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from course_lib.exercises.e7_4.observe import observe as observe
from course_lib.exercises.exercise import Case
from course_lib.exercises.texts import Texts
from course_lib.exercises.values import shown
from course_lib.system.patching import environment
from course_lib.text import many

_TEXTS = Texts("8.2")
# options of the launchers and what they stand for; what each command must come to
_DATA = json.loads(
    (Path(__file__).with_name("launches.json")).read_text(encoding="utf-8")
)
EXPECTED = _DATA["expected"]
_PROGRAMS = ("program", "inner program")
_LONGEST = 2000  # characters of a command
# what srun takes from its environment, by its option (man srun, INPUT ENVIRONMENT)
_OF_SRUN = {
    "nodes": "SLURM_NNODES",
    "ntasks": "SLURM_NTASKS",
    "ntasks-per-node": "SLURM_NTASKS_PER_NODE",
    "cpus-per-task": "SRUN_CPUS_PER_TASK",
}
_SPECIAL = ("standalone", "node 0 at node0:29500", "too few slots")  # own hints


def cases(seed: int) -> Iterator[Case]:
    """Yield the five situations of the text, whatever the seed."""
    yield Case({}, expected=EXPECTED)


def judge(case: Case, seen) -> str:
    """Compare what each command comes to, in the order of `EXPECTED`."""
    returned = seen[0]["returned"]
    texts = returned if isinstance(returned, dict) else {}
    if any(type(texts.get(name)) is not str for name in EXPECTED):
        raise _TEXTS.wrong("no commands", returned=shown(returned))
    for name in EXPECTED:
        if len(texts[name]) > _LONGEST:
            raise _TEXTS.wrong("too long", name=name, found=len(texts[name]))
    for name, right in EXPECTED.items():
        facts = _facts(_words(texts[name], name), name)
        first = {what: right[what] for what in _PROGRAMS if what in right}
        for what, allowed in {**first, "script": ("train.py",), **right}.items():
            found = facts.get(what, "nothing")
            if found not in allowed:
                fill = {"name": name, "what": what, "found": _cut_off(found)}
                fill |= {"expected": allowed[0]}
                why = found if found in _SPECIAL else what
                raise _TEXTS.wrong("differs", why=why, clue={name: facts}, **fill)
    return many(len(EXPECTED), "command")


def _facts(words, name, given=None, *, shell=True):
    """What a command would start, in words by name; a shell takes NAME=value first.

    `given` are the variables that whoever starts it has set.
    """
    own = _assigned(words) if shell or words[:1] == ["env"] else {}
    given = (given or {}) | own
    program, words = _program(words)
    if program == "torchrun":
        return {"program": program} | _torchrun(words, given, name)
    if program not in _DATA["options"]:
        return {"program": program, "script": _script([program, *words])}
    if program == "mpirun":
        return {"program": program} | _mpirun(words, given, name)
    options, rest = _parsed(program, words, name)
    shell = rest[:1] in (["bash"], ["sh"]) and rest[1:2] in (["-c"], ["-lc"])
    rest = _words("".join(rest[2:3]), name) if shell else rest
    inner = _facts(rest, name, given, shell=shell)
    inner |= {"inner program": inner["program"], "agents": inner.get("nodes")}
    return inner | {"program": program} | _srun(options, given)


def _words(text, name):
    """A line as a shell cuts it: variables filled in, but not between ' and '."""
    line = re.sub(r"\\\n", " ", text).strip()
    line = re.sub(
        r"\bexport\s+((?:\w+=[^\s;&]+\s+)*\w+=[^\s;&]+)\s*(?:;|&&|\n)", r"\1 ", line
    ).strip()
    if name in "DE":
        line = re.sub(r"'[^']*'|\$\{?(\w+)\}?", _value, line)
    try:
        words = shlex.split(line)
    except ValueError:
        words = []
    if not words or not line.replace("\t", " ").isprintable():
        raise _TEXTS.wrong("no line", name=name, returned=_cut_off(ascii(text)))
    return words


def _cut_off(text, most=60):
    return text if len(text) <= most else text[: most - 3] + "..."


def _value(match):
    return _DATA["variables"].get(match[1], match[0])


def _assigned(words):
    """Take NAME=value off the start of a command, as a shell does."""
    given = {}
    while words and (words[0] == "env" or re.match(r"\w+=", words[0])):
        name, _, value = words.pop(0).partition("=")
        given[name] = value
    return given


def _program(words):
    """The program of a command, by one name, and the words behind it."""
    program, rest = (words or ["nothing"])[0].rpartition("/")[2], words[1:]
    if "python" in program and rest[:2] == ["-m", "torch.distributed.run"]:
        return "torchrun", rest[2:]
    return _DATA["names"].get(program, program), rest


def _parsed(program, words, name):
    """The options by what they stand for, each with its values; what comes behind."""
    known, alone = _DATA["options"][program].values()
    options, words = {}, list(words)
    while words and words[0].startswith("-"):
        word = words.pop(0)
        key, sign, value = _cut(program, word)
        if key in alone and not sign:
            options[alone[key]] = [""]
        elif key in known and (sign or (words and words[0][:1] != "-")):
            value = value if sign else words.pop(0)
            options.setdefault(known[key], []).append(value)
            if key == "mca":
                options["mca"][-1] += " " + "".join(words[:1])
                del words[:1]
        else:
            fill = {"name": name, "option": word, "program": program}
            raise _TEXTS.wrong("unknown option", clue={name: word}, **fill)
    return options, words


def _cut(program, word):
    """The name of an option, the sign before its value, and the value."""
    if program == "mpirun":  # Open MPI takes no =
        return word.lstrip("-"), "", ""
    if program == "srun" and word[1:2] != "-" and len(word) > 2:
        return word[1], "=", word[2:]
    key, sign, value = word.lstrip("-").partition("=")
    return key, sign, value


def _torchrun(words, given, name):
    """What torchrun would start, as its own parser reads the words."""
    args = _as_torchrun_reads(words, given, name)
    least, _, most = args.nnodes.partition(":")
    nodes = least if most in ("", least) else f"{least} to {most}"
    static = args.rdzv_backend == "static"
    place = f"{args.master_addr}:{args.master_port or 29500}"
    place = args.rdzv_endpoint or (place if static else "nowhere")
    meeting = f"{args.rdzv_backend} at {place}"
    if static:
        meeting = f"node {args.node_rank or 0} at {place}"
    if nodes == "1" and re.search(r"(node 0|c10d) at (localhost|127.0.0.1)\b", meeting):
        meeting = "here"
    started = [args.training_script.removeprefix("./"), *args.training_script_args]
    if args.module and "." not in started[0]:
        started[0] += ".py"
    elif args.module:
        started.append("as a module")
    return {
        **{"nodes": nodes, "ranks": args.nproc_per_node},
        **{"restarts": str(args.max_restarts)},
        "meeting": "standalone" if args.standalone else meeting,
        "id": "job7" if static else args.rdzv_id,
        "script": _script(started) if args.no_python else shlex.join(started),
    }


def _as_torchrun_reads(words, given, name):
    """The options of torchrun, some of which it takes from variables PET_..."""
    from torch.distributed.run import get_args_parser  # needed by this exercise alone

    def refuse(*words, **_):
        said = _cut_off(" ".join(map(str, words)) or "a call for help", most=200)
        raise _TEXTS.wrong("torchrun", clue={name: said}, name=name, said=said)

    # its parser reads them while it is made
    asked = dict.fromkeys(os.environ) | given
    try:
        with environment({k: v for k, v in asked.items() if k.startswith("PET_")}):
            parser = get_args_parser()
    except ValueError as error:
        refuse(error)
    parser.error = parser.exit = parser.print_help = refuse
    known = {one: action for action in parser._actions for one in action.option_strings}
    known["--node-rank"].type = str  # a variable that each node fills in for itself
    return parser.parse_args([_in_full(word, known) for word in words])


def _in_full(word, known):
    """An option by its whole name, if one alone begins like this.

    Some Pythons take the two spellings of one option, with - and with _, for two.
    """
    key, sign, value = word.partition("=")
    full = [one for one in known if one.startswith(key)]
    alone = key[:2] == "--" and len({known[one] for one in full}) == 1
    return f"{full[0]}{sign}{value}" if alone and key not in known else word


def _mpirun(words, given, name):
    """What mpirun would start; after a : come more ranks, with options of their own."""
    parts, placed = [[]], []
    for word in words:
        if word == ":":
            parts.append([])
        else:
            parts[-1].append(word)
    facts = []
    for part in parts:
        options, rest = _parsed("mpirun", part, name)
        placed.append(options)
        facts.append(_handed(options, rest, given))
    together = {
        what: " and ".join(dict.fromkeys(one[what] for one in facts))
        for what in facts[0]
    }
    return {"placed": _placed(placed)} | together


def _handed(options, rest, given):
    """What the ranks of one program are told, and the script that they run."""
    handed, rest = {}, list(rest)
    pairs = list(options.get("x", ()))
    for word in options.get("mca", ()):
        key, _, value = word.partition(" ")
        pairs += value.split(";") if key == "mca_base_env_list" else []
    for pair in pairs:
        name, sign, value = pair.partition("=")
        handed[name] = value if sign else given.get(name, "not set")
    if rest[:1] == ["env"]:
        handed |= _assigned(rest)
    names = {"master address": "MASTER_ADDR", "master port": "MASTER_PORT"}
    facts = {what: handed.get(name, "not handed on") for what, name in names.items()}
    return {"script": _script(rest)} | facts


def _placed(parts):
    """The ranks of each host as Open MPI 4.1 places them, "node0:2,node1:2"."""
    used = {}
    for options in parts:
        counts = _counts(options, used)
        if isinstance(counts, str):
            return counts
        used |= {name: used.get(name, 0) + count for name, count in counts.items()}
    return ",".join(f"{name}:{count}" for name, count in used.items())


def _counts(options, used):
    """How many ranks of one program each host gets, or in words why none."""
    slots = {}
    for host in ",".join(options.get("host", ["localhost"])).split(","):
        name, _, count = host.partition(":")
        slots[name] = slots.get(name, 0) + _int(count or "1")
    slots = {name: count - used.get(name, 0) for name, count in slots.items()}
    counts, wanted = dict.fromkeys(slots, 0), {*options.get("np", ())}
    mapping = "".join(options.get("map-by", ["slot"])).lower()
    each = re.fullmatch(r"(?:ppr:(\d+):node|node|slot|core|socket|numa)(:.*)?", mapping)
    if not each:
        return f"by {mapping}"
    each = _int(each[1] or options.get("npernode", ["0"])[-1])
    if len(wanted) > 1 or (each and wanted - {str(each * len(slots))}):
        return f"{' and '.join(sorted(wanted))} ranks, {each or 'any'} on each"
    total = _int(wanted.pop()) if wanted else each * len(slots) or sum(slots.values())
    if total > sum(slots.values()) or each > min(slots.values()):
        if "oversubscribe" not in {*options, *mapping.split(":")}:
            return "too few slots"
        slots = dict.fromkeys(slots, each or -(-total // len(slots)))
    turns = mapping.split(":")[0] == "node" or "bynode" in options
    for _ in range(min(total, 99)):
        free = [name for name in slots if counts[name] < min(slots[name], each or 99)]
        counts[min(free, key=counts.__getitem__) if turns else free[0]] += 1
    return counts


def _srun(options, given):
    last = {name: given[own] for name, own in _OF_SRUN.items() if own in given}
    last |= {name: values[-1] for name, values in options.items()}
    nodes, each = _int(last.get("nodes", "2")), _int(last.get("ntasks-per-node", "0"))
    total = _int(last.get("ntasks", str(nodes * (each or 1))))
    facts = {"nodes": nodes, "tasks": total, "tasks of a node": each or total / 2}
    cores = last.get("cpus-per-task", "not given")
    return {what: f"{count:g}" for what, count in facts.items()} | {"cores": cores}


def _int(text):
    return int(text) if re.fullmatch("[0-9]{1,4}", text) else 0


def _script(words):
    """train.py if Python runs it, without arguments; else all words."""
    words = [word.removeprefix("./") for word in words if word != "-u"]
    if words[1:] == ["train.py"] and re.fullmatch(r"(/\S+/)?python[\d.]*", words[0]):
        return "train.py"
    return shlex.join(words) + (" by itself" if words == ["train.py"] else "")
