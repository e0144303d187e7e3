"""Names of columns with personal data, and a vocabulary of names."""

from __future__ import annotations

import re

import pyarrow as pa

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")


def words_in(text: str) -> frozenset[str]:
    """Returns the words of a text."""
    return frozenset(text.split())


_ROLES = words_in(
    "account cardholder client contact customer employee guest holder member passenger "
    "patient person recipient sender student subscriber teacher traveller traveler user voter"
)
_PARTS = words_in("first last middle given family full sur fore maiden nick")
_NAMES = words_in(
    "firstname lastname surname familyname givenname forename fullname middlename maidenname "
    "vorname nachname familienname geburtsname prenom nombre apellido apellidos cognome"
)
# Columns whose values often have a given name in them, and are none.
_PLACES_AND_THINGS = words_in(
    "airport album artwork band book borough brand cemetery church city company country county "
    "district employer film firm hotel hospital make manufacturer model movie municipality "
    "neighborhood neighbourhood ort park place port product publisher region restaurant school "
    "shop show song stadium stadt state station store street strasse suburb supplier team title "
    "town track university vendor venue village"
)
_OF_THINGS = words_in("birth destination from home local main name names of origin the to")


def words_of(column: str) -> frozenset[str]:
    """Returns the words of a column's name, in small letters.

    Underscores, other signs and capital letters begin a word: ``homePhone`` is ``home`` and
    ``phone``.
    """
    return frozenset(word.lower() for word in _WORD.findall(column))


def names_persons(words: frozenset[str]) -> bool:
    """Whether a column's name says that it has names of persons."""
    return bool(words & _NAMES or ("name" in words and words & (_ROLES | _PARTS)))


def names_things(words: frozenset[str]) -> bool:
    """Whether a column's name names places or things, not persons.

    A ``store`` is one; a ``store_manager`` is not.
    """
    return bool(words & _PLACES_AND_THINGS) and words <= _PLACES_AND_THINGS | _OF_THINGS


# Frequent given names of Europe and America, without accents.
GIVEN_NAMES: pa.Array = pa.array(
    sorted(
        words_in(
            "aaron adam adrian agnes aisha alan albert alejandro alessandra alessandro alex "
            "alexander alexandra alfred ali alice alicia alina allison amanda amber amelia amir "
            "amy ana andrea andreas andrew andrzej angela angelika anita anja ann anna anne "
            "annette annika anthony antje antonia antonio arnold arthur ashley astrid barbara "
            "bart beate beatrice benjamin bernd bernhard beth betty bianca birgit bjorn bob "
            "boris brandon brenda brian brigitte bruce bruno bryan carl carla carlos carmen "
            "carol carolina caroline catherine cecilia charles charlotte chloe chris christa "
            "christian christina christine christoph christopher cindy claire clara claudia "
            "claus colin connor cornelia craig cynthia daniel daniela david deborah debra "
            "denise dennis derek diana diego dieter dirk dmitri dominik donald donna dora doris "
            "dorothy douglas dylan edith eduardo edward elaine elena eleanor elias elisabeth "
            "elizabeth ella ellen emil emilia emily emma enrique eric erica erik erika ernst "
            "ethan eugene eva evelyn fabian fatima felix fernando finn florian frances "
            "francesca francesco francisco frank franz fred frederik friedrich gabriel gabriela "
            "gabriele gary georg george gerald gerhard giovanni gisela giulia giuseppe gloria "
            "gordon grace greg gregory greta guido gunther hanna hannah hans harald harold "
            "harry heather heidi heike heinrich heinz helen helena helga helmut henri henrik "
            "henry herbert hermann hilda holger horst howard hugo ian ibrahim ida ilse ines "
            "inga ingo ingrid irene iris isaac isabel isabella ivan jack jacob jacqueline jakob "
            "james jamie jan jana jane janet janice jason javier jean jeffrey jennifer jens "
            "jeremy jerry jesse jessica jill joachim joan joanna jochen joe johan johann "
            "johanna johannes john jonas jonathan jorge jose josef joseph joshua joyce juan "
            "judith judy julia julian juliane jurgen justin karen karin karl katarzyna kate "
            "katharina katherine kathleen kathrin kathryn katie katja kay keith kelly ken "
            "kenneth kevin kim kimberly klaus konrad kristin kurt kyle lars laura lauren "
            "laurent lea lena leo leon leonie leslie liam lina linda lisa logan lorenzo louis "
            "louise luca lucas lucia lucy luis luisa lukas lutz lydia madison magdalena malte "
            "manfred manuel manuela marc marcel marcin marco marcus margaret margarete maria "
            "marianne marie mario marion mark marko markus marlene marta martha martin martina "
            "mary mateo mathias matteo matthew matthias maurice max maximilian megan mehmet mia "
            "michael michaela michel michelle miguel mike mila miriam mohamed mohammed monica "
            "monika moritz mustafa nadine nancy natalia natalie nathan nicholas nick nico "
            "nicolas nicole nikolai nils nina noah nora norbert oliver olivia olga omar oscar "
            "oskar otto pablo pamela pascal patricia patrick paul paula pauline pedro peter "
            "petra philip philipp pierre piotr rachel rainer ralf ralph ramona raymond rebecca "
            "reinhard renate rene ricardo richard robert roberto robin roger roland rolf roman "
            "ronald rosa rosemarie roy rudolf russell ruth ryan sabine sabrina samantha samuel "
            "sandra sara sarah scott sean sebastian sergei sharon shirley silke silvia simon "
            "simone sofia sonja sophia sophie stefan stefanie stephan stephanie stephen steve "
            "steven susan susanne svenja sven sylvia tanja tatjana teresa theodor theresa "
            "thomas tim timothy tina tobias tom torsten tyler udo ulrich ulrike ursula ute uwe "
            "valentina valerie vanessa vera veronica veronika victor victoria viktor vincent "
            "virginia volker walter wendy werner wilhelm william wolfgang xavier yvonne zachary "
            "zoe "
        )
    )
)
