"""TOML of single keys, parsed in time and memory that grow with its length."""

import re
import tomllib
from typing import Any

# strings and comments of TOML; one that is not closed reaches to the end
TOML_TEXT = re.compile(
    r'"""(?:\\.|[^\\])*?(?:"""|\Z)|"(?:\\.|[^"\\\n])*+"?'
    r"|'''.*?(?:'''|\Z)|'[^'\n]*+'?|#[^\n]*+",
    re.DOTALL,
)
DOTTED_KEY = re.compile(r"\.[ \t]*[\w-]+[ \t]*\.")  # two dots: no number has them


def parse_toml(text: str) -> dict[str, Any]:
    """The values of a TOML text. Keys with many parts, for which tomllib's memory grows with the square
    of their number, are refused before: keys of a configuration have one part."""
    if dotted := DOTTED_KEY.search(TOML_TEXT.sub("text", text)):
        raise ValueError(
            f"a key has several parts (...{dotted[0][:20]}...). The keys of a configuration are single "
            "words, such as num_chains."
        )
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except ValueError as error:  # int() refuses thousands of digits
        raise ValueError("a whole number has too many digits. Write a smaller one.") from error
