//! The texts from which customers, parcels and reviews are made.

pub(crate) const FIRST_NAMES: [&str; 32] = [
    "Anna", "Ben", "Carla", "David", "Elena", "Felix", "Greta", "Hugo", "Ines", "Jonas", "Klara", "Leo", "Marta",
    "Nils", "Olga", "Paul", "Rosa", "Simon", "Tessa", "Ulf", "Vera", "Willem", "Yara", "Zoe", "Aldo", "Britt", "Cora",
    "Dario", "Edda", "Finn", "Gala", "Henk",
];
pub(crate) const LAST_NAMES: [&str; 32] = [
    "Keller", "Rossi", "Dubois", "Jansen", "Novak", "Larsen", "Moreau", "Fischer", "Bianchi", "Visser", "Horvat",
    "Nielsen", "Laurent", "Weber", "Conti", "Bakker", "Kovac", "Olsen", "Girard", "Maier", "Ferrari", "Smit", "Babic",
    "Dahl", "Roux", "Brandt", "Greco", "Mulder", "Juric", "Lund", "Petit", "Vogel",
];
pub(crate) const CITIES: [(&str, &str); 12] = [
    ("Berlin", "DE"),
    ("Hamburg", "DE"),
    ("Leipzig", "DE"),
    ("Vienna", "AT"),
    ("Graz", "AT"),
    ("Lyon", "FR"),
    ("Nantes", "FR"),
    ("Turin", "IT"),
    ("Bologna", "IT"),
    ("Utrecht", "NL"),
    ("Aarhus", "DK"),
    ("Zagreb", "HR"),
];
pub(crate) const STREETS: [&str; 10] = [
    "Mill Lane",
    "Station Road",
    "Harbour Street",
    "Garden Way",
    "Church Hill",
    "Market Square",
    "Long Row",
    "Orchard Close",
    "River Walk",
    "Castle Street",
];
pub(crate) const CARRIERS: [&str; 3] = ["Parcelline", "Nordpost", "Velox"];
pub(crate) const RETURN_REASONS: [&str; 5] =
    ["too small", "too big", "damaged in transit", "not as described", "changed my mind"];

/// The beginnings of reviews with one to five stars: a title, and one of these sentences.
pub(crate) const VERDICTS: [(&str, [&str; 3]); 5] = [
    (
        "Not again",
        [
            "It broke on the second day out, and the repair took longer than the trip.",
            "A seam opened in the first rain. I sent it back.",
            "What came was not what the pictures show, and it smelled for weeks.",
        ],
    ),
    (
        "Expected more",
        [
            "It does its work, but everything about it feels a little too thin.",
            "Heavier than they say: I put it on the scales twice.",
            "The zip jams whenever there is sand about, which on a beach is always.",
        ],
    ),
    (
        "All right",
        [
            "Does what it should, no more. For the price that is fair.",
            "Good idea, made in a hurry: two threads were loose out of the box.",
            "Fine for a weekend. I would not take it further than that.",
        ],
    ),
    (
        "Good",
        [
            "Used it for three weeks in all weathers and would buy it again.",
            "Well thought out, easy to clean, and it packs smaller than the old one.",
            "Took a while to get used to; now I would not go without it.",
        ],
    ),
    (
        "Excellent",
        [
            "The best one I have had, and I have had a few.",
            "Four days of rain and wind, and it did not once give me reason to think of it.",
            "My daughter took it from me after one trip, so I ordered a second.",
        ],
    ),
];
pub(crate) const REMARKS: [&str; 8] = [
    "Delivery took a day longer than promised.",
    "Customer service answered within the hour.",
    "The bag that it comes in is too tight.",
    "The colour is darker than on the screen.",
    "It came well packed, without any plastic.",
    "The instructions are only a drawing, and it is enough.",
    "I am tall, and it fits.",
    "Spare parts can be ordered, which is rare now.",
];
