"""Tables as LaTeX, for papers."""

from collections.abc import Iterable, Sequence

# What LaTeX would take for something else.
_SIGNS = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str, label: str) -> str:
    """A floating table whose cells are LaTeX already, with the rules of the package booktabs."""
    import pandas

    frame = pandas.DataFrame(rows, columns=list(head))
    columns = "r" * len(head)
    written = frame.to_latex(
        index=False, escape=False, caption=caption, label=label, column_format=columns
    )
    return str(written)


def text(words: str) -> str:
    """Words as LaTeX prints them."""
    return "".join(_SIGNS.get(sign, sign) for sign in words)


def number(value: float | None, digits: int = 3) -> str:
    r"""A number in so many significant digits: 23, 0.000316, $3.24\times10^{11}$; -- for none."""
    if value is None:
        return "--"
    mantissa, e, exponent = f"{value:.{digits}g}".partition("e")
    if not e:
        return mantissa
    if abs(value) < 1e5 and value >= 1:
        return f"{value:.0f}"
    power = f"10^{{{int(exponent)}}}"
    return f"${power}$" if mantissa == "1" else rf"${mantissa}\times{power}$"


def reward(value: float | None, interval: tuple[float, float] | None = None) -> str:
    """A reward with its interval: 0.512 (0.498--0.526)."""
    if value is None:
        return "--"
    ends = "" if interval is None else f" ({interval[0]:.3f}--{interval[1]:.3f})"
    return f"{value:.3f}{ends}"
