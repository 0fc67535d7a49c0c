"""A signal that comes inside a callback, where Python drops exceptions, still ends the command."""

import gc
import signal
import time

import pytest

from vrsgmcmc import cli


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_a_callback_is_not_lost(monkeypatch, capsys, number, code):
    def collect(words):
        def raise_once(*_):
            gc.callbacks.remove(raise_once)
            signal.raise_signal(number)

        gc.callbacks.append(raise_once)
        gc.collect()
        time.sleep(60)
        return 0

    monkeypatch.setattr(cli, "run_command", collect)
    assert cli.main([]) == code
    assert "interrupted." in capsys.readouterr().err
