"""Benchmarks of a GPU through the machine's PyTorch: matrices, copies, launches.

The harness times the lines "begin STEP" and "end STEP"; the last line is a JSON
report. What is wrong is one line on standard error:

  status 2  something is missing: PyTorch, a GPU, or a type that it cannot multiply
  status 3  the GPU failed or vanished
  status 4  out of memory, of the device or of the machine
  status 5  the device computed or copied something wrong
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
import threading
import time

CHECKED_ROWS = 16
# Largest error relative to the reference, as Frobenius norms. Results in BF16 have 8 bits, so each is off by up to
# 2^-9 of itself; FP8 matrices are also summed in fewer bits than FP32. FP32 sums in FP32; INT8 is exact.
BOUNDS = {"fp32": 1e-4, "bf16": 1e-2, "fp8": 2e-2, "int8": 0.0}
FIELDS = ("timestamp", "clocks.sm", "power.draw")


class Failure(Exception):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


def find_torch():
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # the order of nvidia-smi, so both speak of one GPU
    try:
        import torch
    except ImportError as e:
        raise Failure(2, f"missing: PyTorch ({e}); install it for this python3, as in: pip install torch")
    return torch


def find_device(torch, name):
    if name == "cpu":  # tries the logic out; its numbers are not of a GPU, and the harness refuses them
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise Failure(2, f"missing: a GPU that PyTorch {torch.__version__} can use; see nvidia-smi, and whether this PyTorch is built for CUDA")
    return torch.device("cuda", 0)


def sync(torch, device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def timed(torch, device, step, work, watch):
    """Prints the lines that the harness times, and returns the time by the clock inside."""
    sync(torch, device)
    begun = time.time()
    print("begin", step, flush=True)
    start = time.perf_counter()
    work()
    sync(torch, device)
    seconds = time.perf_counter() - start
    print("end", step, flush=True)
    watch.parts.append((begun, time.time()))
    return seconds


class Watch:
    """Reads clock and power every 200 ms while it is entered, and reports what was read within the timed parts."""

    def __enter__(self):
        self.rows, self.parts, self.why = [], [], ""
        gpu = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip() or "0"
        try:
            self.child = subprocess.Popen(
                ["nvidia-smi", "--id=" + gpu, "--query-gpu=" + ",".join(FIELDS), "--format=csv,noheader,nounits", "--loop-ms=200"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        except OSError as e:
            self.child, self.why = None, f"nvidia-smi: {e.strerror}"
            return self
        self.reader = threading.Thread(target=lambda: self.rows.extend(self.child.stdout), daemon=True)
        self.reader.start()
        return self

    def __exit__(self, *_):
        if self.child:
            self.child.terminate()
            self.child.wait()
            self.reader.join()

    def report(self):
        out = {}
        for i, (name, scale) in enumerate((("clock_hertz", 1e6), ("power_watts", 1)), 1):
            values = []
            for row in self.rows:
                cells = row.split(",")
                try:
                    at = datetime.datetime.strptime(cells[0].strip(), "%Y/%m/%d %H:%M:%S.%f").timestamp()
                    if any(begun <= at <= ended for begun, ended in self.parts):
                        values.append(float(cells[i]) * scale)
                except (IndexError, ValueError):
                    pass  # "[N/A]", or a line that was cut off
            if values:
                out[name] = sorted(values)[len(values) // 2]
            else:
                out[name + "_missing"] = self.why or "nvidia-smi gave no number within the timed part"
        return out


def operands(torch, device, dtype, n, seed):
    g = torch.Generator(device=device).manual_seed(seed)
    if dtype == "int8":
        make = lambda: torch.randint(-128, 128, (n, n), generator=g, device=device, dtype=torch.int8)
        return make(), make()
    kind = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp8": getattr(torch, "float8_e4m3fn", None)}[dtype]
    if kind is None:
        raise Failure(2, f"missing: FP8 in PyTorch {torch.__version__}; it came with 2.1")
    make = lambda: torch.randn((n, n), generator=g, device=device, dtype=torch.float32).to(kind)
    return make(), make()


def multiplier(torch, device, dtype, a, b):
    if dtype == "int8":
        if not hasattr(torch, "_int_mm"):
            raise Failure(2, f"missing: INT8 matrices in PyTorch {torch.__version__}; they came with 2.1")
        return lambda: torch._int_mm(a, b)
    if dtype == "fp8":
        one = torch.ones((), device=device, dtype=torch.float32)
        columns = b.t().contiguous().t()  # the library wants the second matrix by columns

        def multiply():
            c = torch._scaled_mm(a, columns, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
            return c[0] if isinstance(c, tuple) else c  # before 2.5 with the largest value
        return multiply
    return lambda: a @ b


def gemm(torch, device, args, report):
    torch.backends.cuda.matmul.allow_tf32 = False
    n = args.size
    a, b = operands(torch, device, args.dtype, n, args.seed)
    multiply = multiplier(torch, device, args.dtype, a, b)
    for _ in range(args.warm):
        multiply()
    with Watch() as watch:
        def work():
            for _ in range(args.repeats):
                report["last"] = multiply()
        seconds = timed(torch, device, "gemm", work, watch)
    c = report.pop("last")
    step = max(1, n // CHECKED_ROWS)
    some = lambda m: m[::step][:CHECKED_ROWS].double()
    want = some(a) @ b.double()
    error = ((some(c) - want).norm() / want.norm()).item()
    report.update(watch.report(), seconds={"gemm": seconds}, dtype=args.dtype, operations=2 * n**3 * args.repeats, error=error, bound=BOUNDS[args.dtype], rows=len(want))
    if not error <= BOUNDS[args.dtype]:
        raise Failure(5, f"the product of {args.dtype} matrices is off by {error:.3g} of the reference in FP64, and {BOUNDS[args.dtype]:.3g} is allowed")


def copy(torch, device, args, report):
    n = args.size
    g = torch.Generator().manual_seed(args.seed)
    source = torch.randint(0, 256, (n,), generator=g, dtype=torch.uint8)
    pin = args.memory == "pinned" and device.type == "cuda"
    host = source.pin_memory() if pin else source.clone()
    there = source.to(device)
    other = torch.empty_like(there)
    one = {
        "to-device": lambda: other.copy_(host, non_blocking=pin),
        "to-host": lambda: host.copy_(there, non_blocking=pin),
        "device": lambda: other.copy_(there),
    }[args.direction]
    for _ in range(args.warm):
        one()
    sync(torch, device)  # the device may still write to host
    (host if args.direction == "to-host" else other).zero_()  # so that the timed copies are what is compared
    with Watch() as watch:
        def work():
            for _ in range(args.repeats):
                one()
                if args.each == "waited":
                    sync(torch, device)
        seconds = timed(torch, device, "copy", work, watch)
    result = host if args.direction == "to-host" else other.cpu()
    report.update(watch.report(), seconds={"copy": seconds}, direction=args.direction, memory=args.memory, bytes=n * args.repeats, copies=args.repeats)
    if not torch.equal(result, source):
        raise Failure(5, "the copy differs from its source")


def launch(torch, device, args, report):
    count = torch.zeros(1, dtype=torch.int64, device=device)
    for _ in range(args.warm):
        count.add_(1)
    with Watch() as watch:
        def queued():
            for _ in range(args.repeats):
                count.add_(1)

        def waited():
            for _ in range(args.repeats):
                count.add_(1)
                sync(torch, device)
        seconds = {"queued": timed(torch, device, "queued", queued, watch), "waited": timed(torch, device, "waited", waited, watch)}
    report.update(watch.report(), seconds=seconds, launches=args.repeats, counted=int(count.item()))
    if report["counted"] != 2 * args.repeats + args.warm:
        raise Failure(5, f"the device counted {report['counted']} launches of {2 * args.repeats + args.warm}")


def describe(torch, device):
    out = {"torch": str(torch.__version__), "cuda": str(torch.version.cuda or "none"), "device": device.type}
    if device.type == "cuda":
        p = torch.cuda.get_device_properties(device)
        out.update(device=p.name, memory_bytes=p.total_memory)
    return out


def explain(torch, e):
    """The failure that an exception of PyTorch means."""
    text = " ".join(str(e).split())[:300]
    if isinstance(e, MemoryError) or "out of memory" in text or "can't allocate memory" in text:
        return Failure(4, f"out of memory: {text}; choose a smaller size")
    if "not implemented for" in text or "is only supported" in text or "not supported" in text:
        return Failure(2, f"missing: this GPU or PyTorch cannot do it: {text}")
    if isinstance(e, (AttributeError, TypeError, ValueError)):  # another version's functions
        return Failure(2, f"missing: PyTorch {torch.__version__} cannot do it: {text}")
    return Failure(3, f"the GPU failed or vanished: {text}; see dmesg for NVRM and Xid")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("mode", choices=("gemm", "copy", "launch"))
    p.add_argument("--size", type=int, default=1)
    p.add_argument("--repeats", type=int, required=True)
    p.add_argument("--warm", type=int, default=3)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--dtype", choices=tuple(BOUNDS), default="bf16")
    p.add_argument("--direction", choices=("to-device", "to-host", "device"), default="to-device")
    p.add_argument("--memory", choices=("pinned", "pageable"), default="pinned")
    p.add_argument("--each", choices=("queued", "waited"), default="queued")
    p.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    args = p.parse_args()
    torch = None
    try:
        torch = find_torch()
        device = find_device(torch, args.device)
        report = {"mode": args.mode, "size": args.size, "repeats": args.repeats, **describe(torch, device)}
        try:
            {"gemm": gemm, "copy": copy, "launch": launch}[args.mode](torch, device, args, report)
        except (RuntimeError, MemoryError, AttributeError, TypeError, ValueError) as e:
            raise explain(torch, e)
    except Failure as e:
        print(e, file=sys.stderr)
        return e.status
    print(json.dumps(report, allow_nan=False), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
