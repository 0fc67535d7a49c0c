"""What `mkdocs build` does besides: pages of methods, texts of examples, and files outside docs/.

A page links `../results/x.svg`, which works on a page of the repository; here the file is copied into
the site, and the link follows it. `<!-- methods: estimators -->` becomes the docstrings of the methods,
`<!-- example: penguins -->` the script `examples/penguins.py`.
"""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CORE = ROOT / "src" / "vrsgmcmc" / "core"
OUTSIDE = re.compile(r"(?<=\]\()\.\./([^)\s#]+)")  # the target of a link out of docs/
METHODS = re.compile(r"<!-- methods: (\w+) -->")
EXAMPLE = re.compile(r"<!-- example: (\w+) -->")


def outside_files(markdown: str) -> list[str]:
    """The files outside docs/ that a page links to, from the root of the repository."""
    return sorted({target for target in OUTSIDE.findall(markdown) if (ROOT / target).is_file()})


def method_names(table: str) -> list[str]:
    """The methods of a table, in its order: what the stub lists."""
    stub = ast.parse((CORE / table / "__init__.pyi").read_text(encoding="utf-8"))
    return [line.names[0].name for line in stub.body if isinstance(line, ast.ImportFrom)]


def method_section(table: str, name: str) -> str:
    """A heading, the equations as the module has them, and the function by its docstring."""
    file = CORE / table / f"{name}.py"
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    options = "    options:\n      show_root_heading: false\n      show_root_toc_entry: false\n"
    return (
        f"### `vr.{name}` {{ #{name} }}\n\n```text\n{text}\n```\n\n"
        f"::: vrsgmcmc.core.{table}.{name}.{name}\n{options}"
    )


def with_methods(markdown: str) -> str:
    """The page with the sections of every table that it asks for."""

    def sections(match: re.Match[str]) -> str:
        table = match[1]
        return "\n\n".join(method_section(table, name) for name in method_names(table))

    return METHODS.sub(sections, markdown)


def with_examples(markdown: str) -> str:
    """The page with the scripts that it asks for."""

    def script(match: re.Match[str]) -> str:
        text = (ROOT / "examples" / f"{match[1]}.py").read_text(encoding="utf-8")
        return f"```python\n{text}```"

    return EXAMPLE.sub(script, markdown)


def on_files(files, config):
    """Copy what the pages link to outside docs/."""
    from mkdocs.structure.files import File

    docs = Path(config["docs_dir"])
    for target in sorted(
        {t for page in docs.glob("*.md") for t in outside_files(page.read_text())}
    ):
        content = (ROOT / target).read_bytes()
        files.append(File.generated(config, f"repository/{target}", content=content))
    return files


def on_page_markdown(markdown, page, config, files):
    """Point links at those copies, and fill in methods and examples."""
    copies = set(outside_files(markdown))
    markdown = OUTSIDE.sub(
        lambda match: f"repository/{match[1]}" if match[1] in copies else match[0], markdown
    )
    return with_examples(with_methods(markdown))
