"""Headless Chromium, controlled through its DevTools pipe."""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
PROGRAM = next(filter(None, map(shutil.which, NAMES)), None)
COMPLAINTS = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")


class Browser:
    """A browser process with one open page."""

    def __init__(self, profile: Path):
        to_browser, self.out = os.pipe()
        self.into, from_browser = os.pipe()
        self.buffer, self.number, self.session, self.events = b"", 0, {}, []
        self.process = subprocess.Popen(
            [
                *("bash", "-c", f'exec "$@" 3<&{to_browser} 4>&{from_browser}', "bash", PROGRAM),
                *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
                *("--no-first-run", "--disable-background-networking", "--remote-debugging-pipe"),
                *("--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={profile}"),
            ],
            pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)

    def start(self):
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self.session = {"sessionId": attached["sessionId"]}
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.ask(f"{domain}.enable")

    def receive(self):
        end = time.monotonic() + 120
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.into], [], [], max(0, end - time.monotonic()))
            more = os.read(self.into, 1 << 20) if ready else b""
            assert more, "the browser does not answer"
            self.buffer += more
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def ask(self, method, **parameters):
        self.number += 1
        question = {"id": self.number, "method": method, "params": parameters, **self.session}
        os.write(self.out, json.dumps(question).encode() + b"\0")
        while (answer := self.receive()).get("id") != self.number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, file: Path, width: int):
        """Show a file; returns the complaints of the browser, and the addresses of its requests."""
        self.events = []
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=800,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.ask("Page.navigate", url=file.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self.receive())
        complaints = [event for event in self.events if event["method"] in COMPLAINTS]
        addresses = [
            event["params"]["request"]["url"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]
        return complaints, [url for url in addresses if not url.startswith("data:")]

    def value(self, expression):
        result = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"]
        return result["value"]

    def screenshot(self):
        width, height = self.value("[innerWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        shot = self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        return base64.b64decode(shot["data"])

    def close(self):
        self.session = {}
        self.ask("Browser.close")
        self.process.wait(60)

    def end(self):
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.into)
