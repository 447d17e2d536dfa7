"""Load batched_rope from a build directory with cuda.core, rotate rows and compare a value.

In this directory::

    pip install cuda-core numpy
    ptxtemplates build -c ../kernels.toml --arch sm_90 --fatbin
    python rope.py build

Without --arch and --fatbin there is PTX alone, and the driver assembles it (and keeps what it made).
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
from cuda.core import (
    Device,
    Kernel,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    Linker,
    LinkerOptions,
    ObjectCode,
    launch,
)


def load(build: Path, kernel: dict[str, Any], device: Device) -> Kernel:
    """Load an entry of the manifest onto the current device."""
    ptx = ObjectCode.from_ptx((build / kernel["file"]).read_bytes())
    code = ptx
    if kernel["fatbin"] is not None:
        # it has machine code, and the PTX for GPUs that it has none for: the driver takes what fits
        code = ObjectCode.from_fatbin((build / kernel["fatbin"]["file"]).read_bytes())
    try:
        return code.get_kernel(kernel["entry"])  # here the driver sees the code
    except Exception:
        # cuda.core does not ask the driver for its log; the linker's error has it
        Linker(ptx, options=LinkerOptions(arch=f"sm_{device.arch}")).link("cubin")
        raise


def array(
    buffer: Any, element: Any
) -> Any:  # what cuda.core and NumPy declare of DLPack does not fit together
    """View memory that the CPU can reach."""
    return np.from_dlpack(buffer).view(element)


def main(build: Path, rows: int) -> str | None:
    """Return what is wrong, or None."""
    manifest = json.loads((build / "manifest.json").read_text(encoding="utf-8"))
    kernel = next(entry for entry in manifest["kernels"] if entry["kernel"] == "batched_rope")
    num_heads, head_dim, theta = (
        kernel["template_parameters"][name] for name in ("num_heads", "head_dim", "theta")
    )
    if not 0 < rows <= kernel["grid_limits"]["rows"]:
        return f"{rows} rows are not possible in one launch: slice them"
    grid = tuple({"rows": rows}.get(extent, extent) for extent in kernel["grid"])

    device = Device()
    device.set_current()
    stream = device.create_stream()
    rope = load(build, kernel, device)

    count = rows * num_heads * head_dim
    host = LegacyPinnedMemoryResource()
    x_host, out_host, positions_host = (host.allocate(4 * n) for n in (count, count, rows))
    x = array(x_host, np.float32)
    out = array(out_host, np.float32)
    positions = array(positions_host, np.uint32)
    x[:] = np.arange(count) % 7 - 3
    positions[:] = 1000 * np.arange(rows)

    x_device, out_device, positions_device = (
        device.allocate(4 * n, stream=stream) for n in (count, count, rows)
    )
    x_device.copy_from(x_host, stream=stream)
    positions_device.copy_from(positions_host, stream=stream)
    config = LaunchConfig(grid=grid, block=tuple(kernel["block"]))
    launch(stream, config, rope, x_device, out_device, positions_device)
    out_device.copy_to(out_host, stream=stream)
    stream.sync()  # an error of the kernel itself shows here

    # pair 1 of head 1 of the last row
    even = ((rows - 1) * num_heads + 1) * head_dim + 2
    angle = float(positions[-1]) * theta ** (-2 / head_dim)
    expected = x[even] * math.cos(angle) - x[even + 1] * math.sin(angle)
    if not abs(out[even] - expected) < 1e-5:
        return f"{out[even]}, and it should be {expected}"
    print("ok")
    return None


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: rope.py BUILD [ROWS]")
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 4))
