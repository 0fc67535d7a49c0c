"""Downloads, against mirrors on the loopback that behave and misbehave."""

import errno
import hashlib
import io
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from vrsgmcmc import cli, datasets
from vrsgmcmc.datasets import CATALOGUE, File, download, meter
from vrsgmcmc.datasets.download import Unavailable

BODY = bytes(range(256)) * 1000
HALF = len(BODY) // 2


class Answer(BaseHTTPRequestHandler):
    """One request, answered by the page of its path."""

    server: "Mirrors"

    def do_GET(self):
        self.server.requests.append((self.path, self.headers["Range"]))
        self.server.agents.add(self.headers["User-Agent"])
        with suppress(BrokenPipeError, ConnectionResetError):  # the client has had enough
            self.server.pages[self.path](self)

    def log_message(self, *_):
        pass

    def head(self, status: int = 200, **headers: object) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()


class Mirrors(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.pages: dict[str, Callable[[Answer], None]] = {}
        self.requests: list[tuple[str, str | None]] = []
        self.agents: set[str] = set()
        self.open = threading.Event()  # mirrors that keep their clients waiting wait for it

    def at(self, **pages: Callable[[Answer], None]) -> tuple[str, ...]:
        """Add mirrors, and return their addresses."""
        self.pages |= {f"/{name}": page for name, page in pages.items()}
        return tuple(f"http://127.0.0.1:{self.server_port}/{name}" for name in pages)

    @property
    def paths(self) -> list[str]:
        return [path.removeprefix("/") for path, _ in self.requests]


@pytest.fixture
def net(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv("VRSGMCMC_OFFLINE", raising=False)
    monkeypatch.delenv("VRSGMCMC_DATA", raising=False)
    with Mirrors() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.open.set()
        server.shutdown()
        thread.join()


def file_at(mirrors: tuple[str, ...], body: bytes = BODY) -> File:
    return File("data.bin", len(body), hashlib.sha256(body).hexdigest(), mirrors)


# mirrors that behave


def good(answer: Answer, body: bytes = BODY) -> None:
    """All of the file, or the requested range."""
    start = int((answer.headers["Range"] or "bytes=0-")[6:-1])
    if start:
        place = f"bytes {start}-{len(body) - 1}/{len(body)}"
        answer.head(206, Content_Length=len(body) - start, Content_Range=place)
    else:
        answer.head(Content_Length=len(body))
    answer.wfile.write(body[start:])


def rangeless(answer: Answer) -> None:
    answer.head(Content_Length=len(BODY))
    answer.wfile.write(BODY)


def unannounced(answer: Answer) -> None:
    answer.head()
    answer.wfile.write(BODY)


# and others


def missing(answer: Answer) -> None:
    answer.send_error(404)


def another(answer: Answer) -> None:
    good(answer, BODY[::-1])


def cut(answer: Answer) -> None:
    """Half of the rest, and then the end of the connection."""
    start = int((answer.headers["Range"] or "bytes=0-")[6:-1])
    place = f"bytes {start}-{len(BODY) - 1}/{len(BODY)}"
    answer.head(206 if start else 200, Content_Length=len(BODY) - start, Content_Range=place)
    answer.wfile.write(BODY[start : (start + len(BODY)) // 2])


def dead(answer: Answer) -> None:
    """Announces the file, and closes the connection."""
    answer.head(Content_Length=len(BODY))


def short(answer: Answer) -> None:
    answer.head(Content_Length=HALF)
    answer.wfile.write(BODY[:HALF])


def long(answer: Answer) -> None:
    answer.head(Content_Length=len(BODY) + 1)
    answer.wfile.write(BODY + b"!")


def endless(answer: Answer) -> None:
    """More bytes than a test reads."""
    answer.head()
    for _ in range(100):
        answer.wfile.write(bytes(2**16))


def silent(answer: Answer) -> None:
    answer.server.open.wait(60)


def stuck(answer: Answer) -> None:
    """Some bytes, and then nothing."""
    answer.head(Content_Length=len(BODY))
    answer.wfile.write(BODY[:HALF])
    answer.server.open.wait(60)


def trickle(answer: Answer) -> None:
    answer.head(Content_Length=len(BODY))
    for place in range(2000):
        answer.wfile.write(BODY[place : place + 1])
        if answer.server.open.wait(0.005):
            break


def elsewhere(answer: Answer) -> None:
    """Another range than the requested one."""
    answer.head(206, Content_Range=f"bytes 5-{len(BODY) - 1}/{len(BODY)}")
    answer.wfile.write(BODY[5:])


def garbled(answer: Answer) -> None:
    answer.wfile.write(b"\x1b[2J no HTTP at all\r\n\r\n")


def chunky(answer: Answer) -> None:
    answer.protocol_version = "HTTP/1.1"
    answer.head(Transfer_Encoding="chunked", Connection="close")
    answer.wfile.write(b"not a number\r\n" + BODY)


def to(target: str) -> Callable[[Answer], None]:
    return lambda answer: answer.head(302, Location=target, Content_Length=0)


@pytest.mark.parametrize("page", [good, rangeless, unannounced])
def test_a_file_comes_whole_and_nothing_else_stays(page, net, tmp_path, capsys):
    path = tmp_path / "new" / "folder" / "data.bin"
    (url,) = net.at(here=page)
    download.download(file_at((url,)), path)
    assert path.read_bytes() == BODY
    assert {other.name for other in path.parent.iterdir()} == {"data.bin", ".data.bin.lock"}
    assert net.requests == [("/here", None)]
    assert all(re.fullmatch(r"vrsgmcmc/[\d.]+\S*", agent) for agent in net.agents)
    assert capsys.readouterr().err == f"data.bin, 256,000 bytes, from {url}\n"


def test_a_file_that_is_there_is_not_asked_for(net, tmp_path):
    path = tmp_path / "data.bin"
    path.write_bytes(b"mine")
    download.download(file_at(net.at(here=good)), path)
    assert net.requests == []
    assert path.read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (missing, "HTTP 404 Not Found"),
        (another, "expected sha256 [0-9a-f]{64}, got [0-9a-f]{64}"),
        (dead, "broke off after 0 of 256,000 bytes"),
        (short, "expected 256,000 bytes, offered 128,000"),
        (long, "expected 256,000 bytes, offered 256,001"),
        (endless, "sends more than the 256,000 bytes of the file"),
        (elsewhere, r"asked for the bytes from 0, offered 'bytes 5-255999/256000'"),
        (garbled, r"\[2J no HTTP at all"),
        (chunky, "IncompleteRead|invalid literal"),
        (to("http://127.0.0.1:1/closed"), "refused"),
        (to("file:///etc/passwd"), "HTTP 302 .*Redirection to url 'file:///etc/passwd' is not allowed"),
        (to("ftp://127.0.0.1/data.bin"), "unknown url type: ftp"),
        (to("/bad"), "HTTP 302 The HTTP server returned a redirect error .* infinite loop"),
    ],
)  # fmt: skip
def test_a_mirror_that_fails_is_left_for_the_next(page, reason, net, tmp_path, capsys):
    path = tmp_path / "data.bin"
    bad, fine = net.at(bad=page, fine=good)
    download.download(file_at((bad, fine)), path)
    assert path.read_bytes() == BODY
    message = capsys.readouterr().err
    assert re.search(rf"^  {re.escape(bad)}: .*{reason}", message, flags=re.MULTILINE)
    assert "\x1b" not in message
    assert net.paths[-1] == "fine"
    assert not path.with_name("data.bin.part").exists()


def test_a_mirror_that_is_down_is_left_for_the_next(net, tmp_path):
    path = tmp_path / "data.bin"
    down = "http://127.0.0.1:1/data.bin", "http://no-such-host.invalid/data.bin"
    download.download(file_at((*down, *net.at(fine=good))), path)
    assert path.read_bytes() == BODY


def test_redirects_are_followed_but_not_for_ever(net, tmp_path):
    net.at(there=good, **{f"hop{k}": to(f"/hop{k + 1}") for k in range(30)})
    (here,) = net.at(here=to("/there"))
    download.download(file_at((here,)), tmp_path / "data.bin")
    assert net.paths == ["here", "there"]
    (far,) = net.at(far=to("/hop0"))
    with pytest.raises(Unavailable, match="HTTP 302 "):
        download.download(file_at((far,)), tmp_path / "other.bin")
    assert len(net.requests) < 20


@pytest.mark.parametrize("page", [silent, stuck])
def test_a_mirror_that_says_nothing_is_left(page, net, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(download, "TIMEOUT", 1.0)
    path = tmp_path / "data.bin"
    download.download(file_at(net.at(slow=page, fine=good)), path)
    assert path.read_bytes() == BODY
    assert "nothing came for 1 s" in capsys.readouterr().err


def test_a_mirror_that_drips_is_left(net, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(download, "WINDOW", 0.2)
    monkeypatch.setattr(download, "SLOWEST", 1e5)
    monkeypatch.setattr(download, "TRIES", 1)
    (slow,) = net.at(slow=trickle)
    with pytest.raises(Unavailable, match=r"slow: too slow: [\d,]+ bytes/s"):
        download.download(file_at((slow,)), tmp_path / "data.bin")
    assert 0 < (tmp_path / "data.bin.part").stat().st_size < len(BODY)


# a download that broke off


def test_what_has_come_is_kept_and_the_rest_is_asked_for(net, tmp_path):
    """A mirror is tried again while it sends bytes; then the next mirror sends the rest."""
    path = tmp_path / "data.bin"
    download.download(file_at(net.at(shaky=cut, fine=good)), path)
    assert path.read_bytes() == BODY
    assert net.requests == [
        *(("/shaky", None), ("/shaky", "bytes=128000-"), ("/shaky", "bytes=192000-")),
        *(("/shaky", "bytes=224000-"), ("/fine", "bytes=240000-")),
    ]


def test_a_later_call_goes_on(net, tmp_path):
    path = tmp_path / "data.bin"
    shaky, fine = net.at(shaky=cut, fine=good)
    with pytest.raises(Unavailable, match=r"shaky: broke off after 240,000 of 256,000 bytes"):
        download.download(file_at((shaky,)), path)
    assert not path.exists()
    download.download(file_at((fine,)), path)
    assert net.requests[-1] == ("/fine", "bytes=240000-")
    assert path.read_bytes() == BODY


@pytest.mark.parametrize(
    ("page", "part", "ranges"),
    [
        (good, BODY[:HALF], ["bytes=128000-"]),
        (good, BODY, []),  # it only lacked its name
        (rangeless, BODY[:HALF], ["bytes=128000-"]),  # and sends all of it
        (
            good,
            bytes(HALF),
            ["bytes=128000-", None],
        ),  # bytes of another file: once more, from nothing
        (rangeless, bytes(HALF), ["bytes=128000-"]),
        (good, bytes(len(BODY)), [None]),
        (good, BODY + b"!", [None]),  # longer than the file
        (good, b"", [None]),
    ],
)
def test_a_part_is_used_if_it_is_one(page, part, ranges, net, tmp_path):
    path = tmp_path / "data.bin"
    path.with_name("data.bin.part").write_bytes(part)
    download.download(file_at(net.at(here=page)), path)
    assert path.read_bytes() == BODY
    assert [place for _, place in net.requests] == ranges
    assert not path.with_name("data.bin.part").exists()


def test_a_mirror_that_cannot_give_the_range_does_not_spoil_the_part(net, tmp_path):
    part = tmp_path / "data.bin.part"
    part.write_bytes(BODY[:HALF])
    (odd,) = net.at(odd=elsewhere)
    with pytest.raises(Unavailable, match=r"asked for the bytes from 128,000, offered 'bytes 5-"):
        download.download(file_at((odd,)), tmp_path / "data.bin")
    assert part.read_bytes() == BODY[:HALF]


def page(answer: Answer) -> None:
    """The login page of a hotel, without a length."""
    answer.head()
    answer.wfile.write(b"<html>please log in</html>")


@pytest.mark.parametrize("here", [BODY[:HALF], b""])
def test_a_page_about_something_else_does_not_spoil_the_part(here, net, tmp_path):
    path, part = tmp_path / "data.bin", tmp_path / "data.bin.part"
    part.write_bytes(here)
    hotel, there = net.at(hotel=page, there=good)
    with pytest.raises(Unavailable, match="hotel: broke off after 26 of 256,000 bytes"):
        download.download(file_at((hotel,)), path)
    assert part.read_bytes() == here
    download.download(file_at((hotel, there)), path)
    assert path.read_bytes() == BODY
    assert net.paths == ["hotel", "hotel", "there"]
    assert {each.name for each in tmp_path.iterdir()} == {"data.bin", ".data.bin.lock"}


def test_wrong_bytes_are_neither_named_nor_kept(net, tmp_path):
    (bad,) = net.at(bad=another)
    with pytest.raises(Unavailable, match="bad: expected sha256"):
        download.download(file_at((bad,)), tmp_path / "data.bin")
    assert [path.name for path in tmp_path.iterdir()] == [".data.bin.lock"]


def test_a_mirror_that_does_not_stop_fills_no_disk(net, tmp_path):
    (bad,) = net.at(bad=endless)
    with pytest.raises(Unavailable, match="bad: sends more than the 256,000 bytes of the file"):
        download.download(file_at((bad,)), tmp_path / "data.bin")
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == 0


# processes


PROGRAM = """
import sys
from pathlib import Path
from vrsgmcmc.datasets.catalogue import File
from vrsgmcmc.datasets.download import download
download(File("data.bin", int(sys.argv[1]), sys.argv[2], (sys.argv[3],)), Path(sys.argv[4]))
assert "numpy" not in sys.modules
"""


def process(file: File, path) -> subprocess.Popen:
    words = [str(file.length), file.sha256, *file.mirrors, str(path)]
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words], stderr=subprocess.PIPE, text=True
    )


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_two_processes_download_once(net, tmp_path):
    def waiting(answer: Answer) -> None:
        answer.server.open.wait(60)
        good(answer)

    path = tmp_path / "data.bin"
    file = file_at(net.at(here=waiting))
    with process(file, path) as first:
        until(lambda: len(net.requests) == 1)
        with process(file, path) as second:
            assert second.stderr.readline() == "data.bin: waiting for another process\n"
            net.open.set()
            assert first.wait(60) == second.wait(60) == 0
    assert path.read_bytes() == BODY
    assert len(net.requests) == 1


def test_a_killed_process_leaves_a_part_and_no_lock(net, tmp_path):
    path = tmp_path / "data.bin"
    part = path.with_name("data.bin.part")
    halfway, fine = net.at(halfway=stuck, fine=good)
    with process(file_at((halfway,)), path) as killed:
        until(lambda: part.exists() and part.stat().st_size > 0)
        killed.send_signal(signal.SIGKILL)
    length = part.stat().st_size
    assert part.read_bytes() == BODY[:length]
    download.download(file_at((fine,)), path)
    assert net.requests[-1] == ("/fine", f"bytes={length}-")
    assert path.read_bytes() == BODY


# the disk


def test_a_full_disk_is_seen_before_the_first_byte(net, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(download.shutil, "disk_usage", lambda _: usage)
    message = (
        f"{tmp_path} cannot take the file: 256,000 bytes are needed and 1,000 are free. Have it in"
    )
    with pytest.raises(OSError, match=re.escape(message)) as error:
        download.download(file_at(net.at(here=good)), tmp_path / "data.bin")
    assert error.value.errno == errno.ENOSPC
    assert net.paths == ["here"]  # a full disk is not the mirror's fault: no other is tried


def test_a_folder_that_cannot_be_made_is_named(net, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(
        OSError, match=f"{tmp_path}/file/mnist cannot take the file: Not a directory"
    ):
        download.download(file_at(net.at(here=good)), tmp_path / "file" / "mnist" / "data.bin")


# progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_bar(net, tmp_path, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    bad, fine = net.at(bad=missing, fine=good)
    download.download(file_at((bad, fine)), tmp_path / "data.bin")
    message = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", screen.getvalue())
    assert "━" in message
    assert "404" in message


def test_elsewhere_a_line_tells_how_far_it_is(net, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(meter, "SECONDS_BETWEEN_LINES", -1.0)
    download.download(file_at(net.at(here=good)), tmp_path / "data.bin")
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == "data.bin: 256,000 of 256,000 bytes, 100%"


# a data set, from the net to the loader


TEXT = {"train": b"a b\n", "valid": b"b\n", "test": b"a\n"}


@pytest.fixture
def text(net, tmp_path, monkeypatch):
    """Penn Treebank, with other words and mirrors on the loopback; the cache is in `cache`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    files = []
    for file, content in zip(CATALOGUE["ptb"].files, TEXT.values(), strict=True):
        page = lambda answer, content=content: good(answer, content)  # noqa: E731
        mirrors = net.at(**{f"bad.{file.name}": missing, file.name: page})
        own = file_at(mirrors, content)
        files.append(file._replace(length=own.length, sha256=own.sha256, mirrors=mirrors))
    changed = CATALOGUE["ptb"]._replace(files=tuple(files))
    monkeypatch.setitem(CATALOGUE, "ptb", changed)
    return changed


def test_a_loader_downloads_into_the_cache_once(text, net, tmp_path):
    assert datasets.penn_treebank().train.tolist() == [0, 1, 2]
    home = tmp_path / "cache" / "vrsgmcmc" / "ptb"
    assert {path.name for path in home.glob("ptb*")} == {file.name for file in text.files}
    count = len(net.requests)
    assert count == 6
    assert datasets.penn_treebank().test.tolist() == [0, 2]
    assert len(net.requests) == count


def test_only_what_is_missing_is_downloaded(text, net, tmp_path, monkeypatch):
    (tmp_path / "mine" / "ptb").mkdir(parents=True)
    (tmp_path / "mine" / "ptb" / "ptb.train.txt").write_bytes(TEXT["train"])
    monkeypatch.setenv("VRSGMCMC_DATA", str(tmp_path / "mine"))
    datasets.penn_treebank()
    assert not any("train" in path for path in net.paths)
    assert len(list((tmp_path / "cache" / "vrsgmcmc" / "ptb").glob("ptb*"))) == 2


def test_offline_nothing_is_asked_for(text, net, monkeypatch):
    monkeypatch.setenv("VRSGMCMC_OFFLINE", "1")
    with pytest.raises(FileNotFoundError, match="VRSGMCMC_OFFLINE forbids"):
        datasets.penn_treebank()
    assert net.requests == []
    monkeypatch.setenv("VRSGMCMC_OFFLINE", "0")
    datasets.penn_treebank()


def test_when_every_mirror_fails_the_message_says_how_to_do_it_by_hand(text, net, tmp_path):
    del net.pages["/ptb.valid.txt"]
    net.at(**{"ptb.valid.txt": another})
    with pytest.raises(FileNotFoundError) as error:
        datasets.penn_treebank()
    message = str(error.value)
    assert message.startswith(
        f"{text.title}: 2 of 3 files are not here, and no mirror has given ptb.valid"
    )
    assert "bad.ptb.valid.txt: HTTP 404 Not Found\n" in message
    for file in text.files[1:]:
        assert f"sha256 {file.sha256}" in message
    assert text.files[0].sha256 not in message
    assert f"put them into {tmp_path / 'cache' / 'vrsgmcmc' / 'ptb'}\n" in message


def run(words: list[str], capsys) -> tuple[int, str, str]:
    capsys.readouterr()
    code = cli.main(words)
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    return code, out, err


def test_get_brings_a_data_set_into_the_cache_or_a_folder(text, net, tmp_path, capsys):
    home = tmp_path / "cache" / "vrsgmcmc" / "ptb"
    code, out, err = run(["data", "get", "ptb"], capsys)
    assert (code, out.splitlines()) == (0, [str(home / file.name) for file in text.files])
    assert err.startswith(f"{text.title}; licence: {text.licence}\n")
    other = tmp_path / "other"
    code, out, _ = run(["data", "get", "ptb", "--data-dir", str(other)], capsys)
    assert (code, out.splitlines()) == (0, [str(other / "ptb" / file.name) for file in text.files])
    assert run(["data", "verify", "ptb", "--data-dir", str(other)], capsys)[0] == 0


def test_get_that_fails_says_so_in_words(text, net, capsys):
    for file in text.files:
        net.at(**{file.name: missing})
    code, out, err = run(["data", "get", "ptb"], capsys)
    assert (code, out) == (2, "")
    assert "vrsgmcmc: Penn Treebank, language-model form: 3 of 3 files are not here" in err


def test_get_with_a_full_disk_is_a_failure_outside(text, capsys, monkeypatch):
    usage = shutil.disk_usage("/")._replace(free=1)
    monkeypatch.setattr(download.shutil, "disk_usage", lambda _: usage)
    code, _, err = run(["data", "get", "ptb"], capsys)
    assert code == 1
    assert "4 bytes are needed and 1 are free" in err


def test_get_that_is_interrupted_keeps_what_has_come(text, net, tmp_path, capsys, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(download, "sha256_of", interrupt)
        code, _, err = run(["data", "get", "ptb"], capsys)
    assert code == 130
    assert "The same command goes on behind what has been kept." in err
    part = tmp_path / "cache" / "vrsgmcmc" / "ptb" / "ptb.train.txt.part"
    assert part.read_bytes() == TEXT["train"]
    assert run(["data", "get", "ptb"], capsys)[0] == 0
