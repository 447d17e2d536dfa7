"""Compare a build directory with the committed snapshots, byte for byte.

``python scripts/compare_snapshots.py build`` needs nothing but the standard library, so that any system on
which the package renders can show that it renders the same bytes.
"""

import sys
from pathlib import Path


def main(build: Path) -> int:
    """Print each difference; return 1 if there is one."""
    snapshots = {path.name: path.read_bytes() for path in Path("snapshots").glob("*.ptx")}
    built = {path.name: path.read_bytes() for path in build.glob("*/*.ptx")}
    different = [name for name in sorted(snapshots | built) if snapshots.get(name) != built.get(name)]
    for name in different:
        print(f"{name}: the build and the snapshot differ")
    print(f"{len(snapshots)} snapshots, {len(different)} differ")
    return 1 if different or not snapshots else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
