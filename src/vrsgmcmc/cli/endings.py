"""How a command ends other than by its return: by SIGTERM, or behind its help."""

TERMINATED = 143


class Terminated(SystemExit):
    """The end by SIGTERM."""

    def __init__(self):
        super().__init__(TERMINATED)


class HelpRequest(SystemExit):
    """The end behind `--help`."""
