import pickle
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from course_lib.accelerators import hardware
from course_lib.accelerators.hardware import (
    GPUS,
    LINKS,
    DataSheet,
    Link,
    compute_time,
    find_gpu,
    find_link,
    parse_size,
    transfer_time,
)
from course_lib.errors import UsageError

GENERATIONS = ("T4", "V100", "A100", "H100", "B200")
DTYPES = {"float64", "float32", "float16", "bfloat16"}
A100 = GPUS["A100"]


def refusal(function, value):
    """The message with which `function` refuses `value`."""
    with pytest.raises(UsageError) as caught:
        function(value)
    return str(caught.value)


# --- data sheets


def test_the_gpus_and_links_of_the_course_are_there_under_their_own_names():
    assert {*GENERATIONS, "A100-80GB", "H200"} <= set(GPUS)
    assert {"PCIe3", "NVLink2", "NVLink5", "InfiniBand-NDR", "ideal"} < set(LINKS)
    for name, sheet in (GPUS | LINKS).items():
        assert sheet.name == name


@pytest.mark.parametrize("gpu", GPUS.values(), ids=GPUS)
def test_every_gpu_names_its_data_sheet_with_the_year(gpu):
    assert "data sheet, 20" in gpu.source, "say whose data sheet of which year"
    assert set(gpu.flops) - {"tfloat32"} == DTYPES


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
def test_every_link_says_where_bandwidth_and_latency_are_from(link):
    bandwidth, latency = link.source.split("; ")
    assert bandwidth.startswith("bandwidth: ")
    assert latency.startswith("latency: ")


@pytest.mark.parametrize("name", [n for n in LINKS if n.startswith("Ethernet")])
def test_a_latency_that_was_not_traced_is_called_assumed(name):
    assert "latency: assumed" in LINKS[name].source


@pytest.mark.parametrize("older, newer", [*zip(GENERATIONS, GENERATIONS[1:])])
def test_a_newer_gpu_is_faster_in_float16_and_has_the_faster_memory(older, newer):
    assert GPUS[newer].flops["float16"] > GPUS[older].flops["float16"]
    assert GPUS[newer].bandwidth > GPUS[older].bandwidth


@pytest.mark.parametrize("gpu", GPUS.values(), ids=GPUS)
def test_no_gpu_is_slower_in_fewer_bits(gpu):
    assert gpu.flops["float64"] <= gpu.flops["float32"] <= gpu.flops["bfloat16"]
    assert gpu.flops["float32"] < gpu.flops["float16"]


def test_peaks_are_dense_where_the_sheet_states_them_with_sparsity():
    assert GPUS["H100"].flops["float16"] == 1979e12 / 2
    assert GPUS["H200"].flops["bfloat16"] == 1979e12 / 2


def test_bfloat16_gains_nothing_before_ampere():
    without = [n for n, g in GPUS.items() if g.flops["bfloat16"] < g.flops["float16"]]
    assert without == [n for n, g in GPUS.items() if g.capability < (8, 0)]
    for name in without:
        assert GPUS[name].flops["bfloat16"] == GPUS[name].flops["float32"]
        assert "bfloat16: assumed" in GPUS[name].source


def test_tensor_cores_round_float32_from_ampere_on():
    without = [name for name, gpu in GPUS.items() if "tfloat32" not in gpu.flops]
    assert without == [n for n, gpu in GPUS.items() if gpu.capability < (8, 0)]
    for gpu in GPUS.values():
        if gpu.name not in without:
            half = gpu.flops["bfloat16"] / 2
            assert gpu.flops["tfloat32"] == pytest.approx(half, rel=0.02)
    slow = compute_time(GPUS["V100"], flops=1e12, dtype="tfloat32")
    assert slow == compute_time(GPUS["V100"], flops=1e12)


def test_memory_is_counted_in_powers_of_1000():
    assert A100.memory == 40_000_000_000
    assert isinstance(A100.memory, int)


@pytest.mark.parametrize("name, lane", [("PCIe3", 8), ("PCIe4", 16), ("PCIe5", 32)])
def test_pcie_moves_128_of_130_bits_on_16_lanes(name, lane):
    expected = 16 * lane * 1e9 * 128 / 130 / 8
    assert LINKS[name].bandwidth == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    "name, links, speed",
    [("NVLink2", 6, 25e9), ("NVLink3", 12, 25e9), ("NVLink4", 18, 25e9)]
    + [("NVLink5", 18, 50e9)],
)
def test_nvlink_is_one_direction_of_all_links_of_a_gpu(name, links, speed):
    assert LINKS[name].bandwidth == links * speed


@pytest.mark.parametrize(
    "name, gigabits",
    [("InfiniBand-HDR", 200), ("InfiniBand-NDR", 400)]
    + [("Ethernet-10G", 10), ("Ethernet-25G", 25), ("Ethernet-100G", 100)],
)
def test_a_network_has_the_bits_of_its_name(name, gigabits):
    assert LINKS[name].bandwidth * 8 == gigabits * 1e9


def test_a_message_takes_longer_the_more_lies_between_the_devices():
    ways = ("ideal", "NVLink3", "PCIe4", "InfiniBand-HDR", "Ethernet-25G")
    latencies = [LINKS[name].latency for name in ways]
    assert latencies == sorted({*latencies})


# --- time


def test_a_copy_of_three_gigabytes_over_nvlink3_takes_ten_milliseconds():
    link = Link("by hand", bandwidth=300e9, latency=5e-6, source="a test")
    assert transfer_time(link, 3e9) == pytest.approx(10e-3 + 5e-6)
    assert transfer_time(LINKS["NVLink3"], 3e9) == pytest.approx(10e-3, rel=1e-3)


def test_a_copy_of_one_byte_takes_the_latency():
    for link in LINKS.values():
        assert transfer_time(link, 1) == pytest.approx(link.latency, rel=1e-3)


def test_the_ideal_link_is_free():
    assert transfer_time(LINKS["ideal"], 1e15) == 0


def test_a_square_matmul_of_4096_is_bound_by_arithmetic_and_takes_7_ms_on_an_a100():
    flops, bytes = 2 * 4096**3, 3 * 4 * 4096**2
    assert compute_time(A100, flops=flops, bytes=bytes) == pytest.approx(7.05e-3, 1e-3)


def test_an_addition_is_bound_by_memory():
    # reads two and writes one of a million float32
    seconds = compute_time(A100, flops=1e6, bytes=12e6)
    assert seconds == 12e6 / 1555e9


def test_the_ridge_of_an_a100_in_float32_is_at_twelve_and_a_half_flop_per_byte():
    memory = compute_time(A100, bytes=1e9)
    assert compute_time(A100, bytes=1e9, flops=12.5e9) == memory
    assert compute_time(A100, bytes=1e9, flops=12.6e9) > memory


def test_float16_takes_a_sixteenth_of_the_arithmetic_on_an_a100():
    half = compute_time(A100, flops=1e12, dtype="float16")
    assert compute_time(A100, flops=1e12) / half == pytest.approx(16)


@pytest.mark.parametrize("dtype", ["int64", "bool", "complex64"])
def test_a_dtype_without_a_peak_counts_as_float32(dtype):
    seconds = compute_time(GPUS["V100"], flops=15.7e12, dtype=dtype)
    assert seconds == pytest.approx(1)


def test_nothing_to_do_takes_no_time():
    assert compute_time(A100) == 0


# --- names


@pytest.mark.parametrize(
    "name, found",
    [("a100", "A100"), ("NVIDIA A100 80GB", "A100-80GB"), ("Tesla T4", "T4")]
    + [(" h-200 ", "H200"), ("A100_40GB", "A100"), ("V100 32GB", "V100")],
)
def test_a_gpu_is_found_however_its_name_is_written(name, found):
    assert find_gpu(name) is GPUS[found]


@pytest.mark.parametrize(
    "name, found",
    [("nvlink 3.0", "NVLink3"), ("PCIe Gen4", "PCIe4"), ("pcie-5.0", "PCIe5")]
    + [("infiniband", "InfiniBand-HDR"), ("Ethernet", "Ethernet-25G")]
    + [("ethernet 100g", "Ethernet-100G"), ("Ideal", "ideal")],
)
def test_a_link_is_found_however_its_name_is_written(name, found):
    assert find_link(name) is LINKS[found]


def test_every_gpu_and_link_is_found_by_its_own_name():
    assert [find_gpu(name) for name in GPUS] == list(GPUS.values())
    assert [find_link(name) for name in LINKS] == list(LINKS.values())


def test_a_gpu_or_link_of_ones_own_passes_through():
    gpu = DataSheet("mine", 10**6, 1e9, {"float32": 1e9}, "a test")
    link = Link("mine", 1e9, 1e-6, "a test")
    assert find_gpu(gpu) is gpu
    assert find_link(link) is link


@pytest.mark.parametrize("find, known", [(find_gpu, GPUS), (find_link, LINKS)])
@pytest.mark.parametrize("name", ["abacus", "", 3, None, True])
def test_an_unknown_name_lists_the_known_ones(find, known, name):
    message = refusal(find, name)
    assert repr(name) in message
    assert f"known are {', '.join(known)}." in message
    assert "Did you mean" not in message


@pytest.mark.parametrize(
    "find, name, near",
    [(find_gpu, "A1000", "A100"), (find_gpu, "b20O", "B200")]
    + [(find_link, "NVLnk3", "NVLink3"), (find_link, "infiniband hd", "InfiniBand-HDR")]
    + [(find_link, "ethernt", "Ethernet-25G")],
)
def test_a_slip_is_answered_with_the_nearest_name(find, name, near):
    assert refusal(find, name).endswith(f"Did you mean {near!r}?")


def test_a_link_is_no_gpu():
    assert "cannot look up the gpu 'NVLink3'" in refusal(find_gpu, "NVLink3")
    assert "cannot look up the gpu <Link NVLink3" in refusal(find_gpu, LINKS["NVLink3"])


# --- sizes


@pytest.mark.parametrize(
    "size, expected",
    [(24e6, 24_000_000), (1, 1), (Fraction(3, 2) * 4, 6), (np.int64(7), 7)]
    + [("24 MB", 24_000_000), ("24mb", 24_000_000), (" 1.5 GB ", 1_500_000_000)]
    + [("2MiB", 2_097_152), ("3 KiB", 3072), ("1 GiB", 2**30), ("2 kB", 2000)]
    + [("24e6", 24_000_000), ("5e-1 kB", 500), ("12 B", 12), ("1 TB", 10**12)]
    + [("1.001 kB", 1001), (1e15, 10**15)],
)
def test_a_size_in_numbers_or_words_becomes_whole_bytes(size, expected):
    assert parse_size(size) == expected
    assert type(parse_size(size)) is int


@pytest.mark.parametrize(
    "size, reason",
    [(size, "it is not one byte to 1 PB") for size in (-1, 0, "0 GB", 0.4, "1e400")]
    + [(size, "it is not one byte to 1 PB") for size in (1.1e15, "2000 TB", 10**400)]
    + [(float(name), "it is not one byte to 1 PB") for name in ("nan", "inf")]
    + [(size, "it does not read as a number") for size in (True, None, [24], 24j)]
    + [
        (size, "it does not read as a number")
        for size in ("nan GB", "-24 MB", "1.2.3 GB")
    ]
    + [("24 parsecs", "the unit 'parsecs' is none of B, kB, MB, GB, TB, KiB,")]
    + [("24 M", "the unit 'M' is none of")]
    + [("", "it does not read as a number and a unit")]
    + [("1,5 GB", "it does not read as a number and a unit")]
    + [("GB", "it does not read as a number and a unit")],
)
def test_a_bad_size_is_refused_with_its_reason_and_what_is_accepted(size, reason):
    message = refusal(parse_size, size)
    assert f" as a size in bytes: {reason}" in message
    assert message.endswith(
        'Give a number of bytes, 24e6, or words, "24 MB", "1.5 GB", "2 MiB".'
    )


# --- objects


def test_a_gpu_and_a_link_show_themselves_in_one_line():
    shown = "<Gpu A100: 40 GB, 1555 GB/s, float32 19.5, float16 312 TFLOP/s>"
    assert repr(A100) == shown
    assert repr(LINKS["PCIe4"]) == "<Link PCIe4: 31.5 GB/s, 5.7 µs>"
    assert repr(LINKS["ideal"]) == "<Link ideal: inf GB/s, 0 µs>"


def test_a_gpu_with_no_peak_in_float16_shows_itself_too():
    mine = DataSheet("mine", 10**9, 1e9, {"float32": 2e12}, "a test")
    assert repr(mine) == "<Gpu mine: 1 GB, 1 GB/s, float32 2 TFLOP/s>"


def test_gpus_and_links_can_be_sent_to_a_rank_and_used_as_keys():
    sheets = [*GPUS.values(), *LINKS.values()]
    assert pickle.loads(pickle.dumps(sheets)) == sheets
    assert len({*sheets}) == len(sheets)


def test_data_sheets_are_read_without_torch():
    code = f"import {hardware.__name__}, sys; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n"
