"""Numba's cache is thrown away when a kernel changes, and only then."""

from pathlib import Path

import pytest

from overstory.kernels.compiling import drop_stale_cache

KERNEL = "from overstory.kernels.limits import LIMIT\n@kernel\ndef twice(x): return x + x\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "some.py").write_text(KERNEL)
    (tmp_path / "limits.py").write_text("LIMIT = 3\n")
    (tmp_path / "other.py").write_text("")
    (tmp_path / "plain.py").write_text("")
    drop_stale_cache(tmp_path)
    (tmp_path / "__pycache__" / "some.twice-1.nbi").touch()
    return tmp_path


def cached(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("__pycache__/*.nb?")]


def test_what_is_compiled_is_kept(folder: Path) -> None:
    drop_stale_cache(folder)
    assert cached(folder)


def test_a_changed_kernel_is_dropped(folder: Path) -> None:
    (folder / "some.py").write_text(KERNEL.replace("+", "*"))
    drop_stale_cache(folder)
    assert not cached(folder)


def test_what_imports_a_changed_constant_is_dropped(folder: Path) -> None:
    (folder / "limits.py").write_text("LIMIT = 4\n")
    drop_stale_cache(folder)
    assert not cached(folder)


def test_the_plain_twins_may_change(folder: Path) -> None:
    (folder / "plain.py").write_text("def twice(x): return 2 * x\n")
    drop_stale_cache(folder)
    assert cached(folder)


def test_a_file_that_is_not_imported_may_change(folder: Path) -> None:
    (folder / "other.py").write_text(KERNEL)
    drop_stale_cache(folder)
    assert cached(folder)
