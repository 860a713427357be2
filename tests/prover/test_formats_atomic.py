import os
import resource
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from prover.errors import ProverError
from prover.formats.atomic import AtomicFiles, atomic_file, is_temporary, remove_stale, write_files
from prover.formats.errors import WriteError


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def temporaries(folder):
    return [name for name in names(folder) if is_temporary(name)]


def test_several_files_appear_whole(tmp_path):
    write_files({tmp_path / "a": b"one", str(tmp_path / "b"): b""})
    assert names(tmp_path) == ["a", "b"]
    assert (tmp_path / "a").read_bytes() == b"one"


def test_nothing_is_seen_before_the_end(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    with AtomicFiles() as files:
        files.open(tmp_path / "a").write(b"new")
        files.open(tmp_path / "b").write(b"new")
        assert (tmp_path / "a").read_bytes() == b"old"
        assert not (tmp_path / "b").exists()
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() == b"new"
    assert names(tmp_path) == ["a", "b"]


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt, WriteError])
def test_a_failure_leaves_what_was(tmp_path, failure):
    (tmp_path / "a").write_bytes(b"old")
    error = WriteError("x", OSError(5, "bad")) if failure is WriteError else failure()
    with pytest.raises(failure), AtomicFiles() as files:
        files.open(tmp_path / "a").write(b"new")
        files.open(tmp_path / "b").write(b"new")
        raise error
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_if_one_cannot_be_opened_none_appears(tmp_path):
    with pytest.raises(WriteError) as caught:
        write_files({tmp_path / "a": b"1", tmp_path / "none" / "b": b"2"})
    assert str(caught.value) == (
        f"cannot write: {tmp_path / 'none' / 'b'}: No such file or directory: choose another place"
    )
    assert names(tmp_path) == []


def test_if_a_later_rename_fails_earlier_new_files_go(tmp_path):
    with pytest.raises(WriteError), AtomicFiles() as files:
        files.open(tmp_path / "a").write(b"1")
        files.open(tmp_path / "b").write(b"2")
        (tmp_path / "b").mkdir()
    assert names(tmp_path) == ["b"]


def test_a_directory_is_no_target(tmp_path):
    with pytest.raises(WriteError, match="Is a directory"), atomic_file(tmp_path):
        pass
    assert names(tmp_path) == []


def test_no_space_is_what_the_machine_lacks():
    with pytest.raises(ProverError) as caught:
        write_files({"/dev/full": b"x" * 100_000})
    assert str(caught.value) == "cannot write: /dev/full: No space left on device: free some space"
    assert caught.value.exit_code == 3
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


@pytest.mark.parametrize("size", [6_000, 1_000_000])
def test_a_write_that_fails_names_its_target(tmp_path, size):
    """At the limit of a file's size, hit while the body writes or at the last flush."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, hard))
    try:
        with pytest.raises(WriteError) as caught, AtomicFiles() as files:
            files.open(tmp_path / "small").write(b"x")
            stream = files.open(tmp_path / "key.zkey")
            for _ in range(10):
                stream.write(b"x" * (size // 10))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert str(caught.value) == f"cannot write: {tmp_path / 'key.zkey'}: File too large: choose another place"
    assert names(tmp_path) == []


def test_devices_and_pipes_are_written_to(tmp_path):
    write_files({os.devnull: b"x"})
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
    os.mkfifo(tmp_path / "pipe")
    got = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write_files({tmp_path / "pipe": b"through"})
    reader.join()
    assert got == [b"through"]
    assert names(tmp_path) == ["pipe"]


@pytest.mark.parametrize("flags", [os.O_TRUNC, os.O_APPEND])
def test_an_open_descriptor_is_written_to_where_it_stands(tmp_path, flags):
    """What a shell's > and >> do: the file stays, and what is written before and after lies around the content."""
    path = tmp_path / "out"
    path.write_bytes(b"old.")
    inode = path.stat().st_ino
    descriptor = os.open(path, os.O_WRONLY | flags)
    os.write(descriptor, b"before.")
    write_files({f"/dev/fd/{descriptor}": b"content."})
    os.write(descriptor, b"after.")
    os.close(descriptor)
    old = b"" if flags == os.O_TRUNC else b"old."
    assert path.read_bytes() == old + b"before.content.after."
    assert path.stat().st_ino == inode
    assert names(tmp_path) == ["out"]


def test_standard_output_into_a_file(tmp_path):
    code = (
        "import os; from prover.formats.atomic import write_files;"
        "os.write(1, b'before.'); write_files({'/dev/stdout': b'content.'}); os.write(1, b'after.')"
    )
    with (tmp_path / "out").open("wb") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, check=True)
    assert (tmp_path / "out").read_bytes() == b"before.content.after."


def test_a_symbolic_link_stays_and_its_file_is_replaced(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real/a")
    (tmp_path / "dangling").symlink_to("real/b")
    write_files({tmp_path / "link": b"new", tmp_path / "dangling": b"b"})
    assert (tmp_path / "link").is_symlink() and (tmp_path / "dangling").is_symlink()
    assert (tmp_path / "real" / "a").read_bytes() == b"new"
    assert names(tmp_path / "real") == ["a", "b"]


def test_modes(tmp_path):
    before = os.umask(0o027)
    try:
        write_files({tmp_path / "new": b""})
        (tmp_path / "secret").touch(0o600)
        write_files({tmp_path / "secret": b"x"})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600


WRITER = """
import sys
from prover.formats.atomic import AtomicFiles
with AtomicFiles() as files:
    stream = files.open(sys.argv[1])
    stream.write(b"half")
    stream.flush()
    print("ready", flush=True)
    sys.stdin.read()
"""


def start_writer(path):
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    return process


def test_what_a_killed_writer_left_is_swept_and_a_living_one_is_not(tmp_path):
    (tmp_path / "key").write_bytes(b"old")
    dead, living = start_writer(tmp_path / "key"), start_writer(tmp_path / "other")
    try:
        assert len(temporaries(tmp_path)) == 2
        assert remove_stale(tmp_path) == 0
        dead.send_signal(signal.SIGKILL)
        dead.wait()
        assert (tmp_path / "key").read_bytes() == b"old"
        assert len(temporaries(tmp_path)) == 2
        write_files({tmp_path / "key": b"new"})  # the first write of this process in this directory sweeps it
        assert len(temporaries(tmp_path)) == 1
        living.communicate("")
        assert (tmp_path / "other").read_bytes() == b"half"
    finally:
        for process in (dead, living):
            process.kill()
            process.communicate()
    assert names(tmp_path) == ["key", "other"]


def test_only_our_own_regular_files_are_swept(tmp_path):
    (tmp_path / ".cuzk-top-1.tmp").touch()
    (tmp_path / ".cuzk-top-dir.tmp").mkdir()
    (tmp_path / "keep").touch()
    (tmp_path / ".cuzk-top-link.tmp").symlink_to("keep")
    os.mkfifo(tmp_path / ".cuzk-top-pipe.tmp")
    assert remove_stale(tmp_path) == 1
    assert names(tmp_path) == [".cuzk-top-dir.tmp", ".cuzk-top-link.tmp", ".cuzk-top-pipe.tmp", "keep"]
    assert remove_stale(tmp_path / "none") == 0


def test_writers_and_sweepers_at_once(tmp_path):
    errors, stop = [], threading.Event()

    def sweep():
        while not stop.is_set():
            remove_stale(tmp_path)

    def write(name):
        try:
            for i in range(60):
                write_files({tmp_path / f"{name}{i}": b"x" * 100, tmp_path / f"{name}same": b"y"})
        except WriteError as error:
            errors.append(error)

    sweepers = [threading.Thread(target=sweep) for _ in range(2)]
    writers = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for thread in (*sweepers, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    for thread in sweepers:
        thread.join()
    assert not errors
    assert len(names(tmp_path)) == 3 * 61
    assert not temporaries(tmp_path)


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_new_files_replace_none_that_came_meanwhile(tmp_path, monkeypatch, links):
    def refused(*_):
        raise PermissionError(1, "Operation not permitted")

    if not links:
        monkeypatch.setattr(os, "link", refused)
    first, second = tmp_path / "first", tmp_path / "second"
    with pytest.raises(ProverError, match=r"exists already: .*second: give another name; nothing was replaced"):  # noqa: SIM117
        with AtomicFiles(new=True) as files:
            files.open(first).write(b"ours")
            files.open(second).write(b"ours")
            second.write_bytes(b"theirs")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"second": b"theirs"}
    with AtomicFiles(new=True) as files:
        files.open(first).write(b"ours")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"second": b"theirs", "first": b"ours"}


def test_of_many_that_make_the_same_file_one_does(tmp_path):
    """Each fails or has its own content there: none replaces another's."""
    made, barrier = [], threading.Barrier(8)

    def make(number):
        try:
            with AtomicFiles(new=True) as files:
                files.open(tmp_path / "key").write(bytes([number]))
                barrier.wait(10)
            made.append(number)
        except ProverError:
            pass

    threads = [threading.Thread(target=make, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1 and [*tmp_path.iterdir()] == [tmp_path / "key"]
    assert (tmp_path / "key").read_bytes() == bytes(made)
