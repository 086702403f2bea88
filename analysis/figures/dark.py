"""A described figure in dark colours."""

from dataclasses import replace

from isosweep.analysis.figures.colors import DARK
from isosweep.analysis.figures.description import Figure


def dark(figure: Figure) -> Figure:
    """`figure` with every colour exchanged for its dark counterpart.

    Raises KeyError for a colour that has none.
    """
    heat_map = figure.heat_map
    if heat_map is not None:
        heat_map = replace(heat_map, scale=tuple(DARK[color] for color in heat_map.scale))
    return replace(
        figure,
        bands=tuple(replace(band, color=DARK[band.color]) for band in figure.bands),
        series=tuple(replace(series, color=DARK[series.color]) for series in figure.series),
        labels=tuple(replace(label, color=DARK[label.color]) for label in figure.labels),
        heat_map=heat_map,
    )
