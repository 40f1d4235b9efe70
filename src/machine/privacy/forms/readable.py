"""Readable: whether letters follow each other as they do in words, or as dice throw them."""

_FOLLOWERS = """
    a:bcdgiklmnprstuvwy b:aeiloru c:acehiklortu d:adeiloru e:abcdefgilmnopqrstvxy f:aefilortuy g:aehilnoru h:aeiotu
    i:abcdefglmnoprstvz j:aeou k:aei l:adeilostuy m:abeimopsu n:acdefgiklnostuv o:abcdfgiklmnoprstuvw p:aehiloprstuy
    q:u r:acdegikmnoprstuy s:acehiklmopstuwy t:acehiloprstuwyz u:abcdegilmnprst v:aeio w:aehinor x:cpt y:oprs z:aeio
"""
_PAIRS = frozenset(
    first + follower
    for entry in _FOLLOWERS.split()
    for first, followers in [entry.split(":")]
    for follower in followers
)
"""Two letters that follow each other in English documents more often than once in 1,700, and a few more."""
_FEW = 0.6
"""Of the pairs of 16 random letters 35 % are among them on average, of those of a word nearly all."""


def is_readable(letters: str) -> bool:
    """Whether small letters of ASCII, 8 or more of them, may be words."""
    pairs = [letters[i : i + 2] in _PAIRS for i in range(len(letters) - 1)]
    return sum(pairs) > _FEW * len(pairs)
