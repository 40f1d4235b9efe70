"""Theme: what a made repository is about, as words: things, the groups that they come in, their names."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Theme:
    """`stems` begin the project's name; `items` are twelve names of things, `groups` six; all in lower case ASCII."""

    stems: tuple[str, ...]
    thing: str
    things: str
    groups: tuple[str, ...]
    items: tuple[str, ...]


ENDINGS = (
    "book",
    "desk",
    "shelf",
    "log",
    "kit",
    "board",
    "pad",
    "box",
    "bench",
    "file",
    "ledger",
    "room",
    "watch",
    "card",
)
"""What a project's name ends with, after its stem."""


def _theme(stems: str, thing: str, things: str, groups: str, items: str) -> Theme:
    return Theme(tuple(stems.split()), thing, things, tuple(groups.split()), tuple(items.split()))


THEMES = (
    _theme(
        "orchard apple fruit", "tree", "trees", "hill river gate barn pond wall",
        "alder russet pippin quince medlar damson mulberry hazel walnut cherry plum fig",
    ),
    _theme(
        "tide harbour quay", "boat", "boats", "north south inner outer east dock",
        "petrel curlew dunlin gannet plover tern osprey kittiwake fulmar skua heron egret",
    ),
    _theme(
        "oven bread crumb", "loaf", "loaves", "rye wheat spelt oat maize barley",
        "baton cob bloomer plait wreath miche tin boule knot sheaf crown twist",
    ),
    _theme(
        "kiln clay glaze", "pot", "pots", "blue brown white green grey amber",
        "jug crock beaker ewer urn platter saucer bowl mug vase tile flask",
    ),
    _theme(
        "hive meadow clover", "hive", "hives", "lime heath clover thistle willow bramble",
        "amity bonnet cinder dapple ember fennel ginger harrow ivory juniper kestrel linden",
    ),
    _theme(
        "trail summit ridge", "hut", "huts", "upper lower west east pass glacier",
        "raven marmot ibex gentian larch edelweiss boulder cairn spring saddle needle scree",
    ),
    _theme(
        "type press letter", "font", "fonts", "serif sans slab script mono display",
        "argo brisk cadence delta easel fable garnet hollow island jasper kindle lumen",
    ),
    _theme(
        "rail signal depot", "train", "trains", "local fast night freight branch shuttle",
        "comet arrow lantern beacon falcon harvest pioneer rambler mariner weaver miner courier",
    ),
    _theme(
        "star dome lens", "star", "stars", "spring summer autumn winter polar southern",
        "vega altair deneb spica rigel capella mira adhara castor pollux antares regulus",
    ),
    _theme(
        "yarn loom thread", "yarn", "yarns", "wool linen cotton silk hemp alpaca",
        "moss slate copper birch rust indigo saffron plumtone chalk peat heather kelp",
    ),
    _theme(
        "stage curtain prompt", "play", "plays", "comedy tragedy farce opera mime revue",
        "lanterns tempests gardens mirrors orphans sparrows thimbles islands shadows candles bridges clocks",
    ),
    _theme(
        "seed bed sprout", "seed", "seeds", "root leaf bean bulb herb flower",
        "carrot parsnip chard kale borage dill leek onion lettuce radish cress thyme",
    ),
    _theme(
        "rain gauge cloud", "gauge", "gauges", "valley plain coast moor forest town",
        "aldgate bexley corran dunmore elswick farley glenby hatton inver kelso lorton mossley",
    ),
    _theme(
        "wheel spoke pedal", "bicycle", "bicycles", "tour city cargo folding race tandem",
        "swift robin badger otter hare lynx marten stoat weasel puma gazelle kudu",
    ),
)  # fmt: skip
