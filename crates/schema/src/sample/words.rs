//! What values of a name look like.

pub(super) const DOMAINS: &[&str] = &[
    "antik-becker.de",
    "www.galerie-lumiere.fr",
    "oldcoins.example.co.uk",
    "militaria-shop.de",
    "stockholm-antik.se",
    "casa-antigua.es",
    "vintage-nord.dk",
    "uhren-meier.ch",
    "the-map-room.com",
    "bottega-rossi.it",
];

/// Where a name says nothing.
pub(super) const ANY: &[&str] = &[
    "amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "harbor", "iris", "juniper", "kestrel",
    "linden",
];

const PEOPLE: &[&str] = &[
    "Ada Lindqvist",
    "Kenji Sato",
    "Maria Oliveira",
    "Jonas Weber",
    "Yuki Tanaka",
    "Elin Berg",
    "Paulo Costa",
    "Claire Martin",
];

/// Looked for in the owner and the name, in this order; the first that is found counts.
const LISTS: &[(&str, &[&str])] = &[
    ("domain", DOMAINS),
    ("host", DOMAINS),
    (
        "restaurant",
        &["niagara", "kockska", "bryggan", "spill", "valfarden", "docks", "ubatshallen", "saltimporten"],
    ),
    ("place", &["Niagara", "Kockska", "Bryggan", "Spill", "Docks"]),
    (
        "lunch.name",
        &[
            "Ärtsoppa med pannkakor",
            "Stekt strömming",
            "Köttbullar",
            "Pasta carbonara",
            "Grön curry",
            "Raggmunk",
        ],
    ),
    ("lunch.description", &["med potatismos", "med lingon", "serveras med sallad", "med ris", "vegetarisk"]),
    ("shop_name", &["Antik Becker", "Galerie Lumière", "Old Coins", "The Map Room", "Bottega Rossi"]),
    ("company_name", &["トヨタ自動車", "ソニーグループ", "任天堂", "三菱商事", "日立製作所", "キーエンス"]),
    ("disclosure_type", &["決算短信", "有価証券報告書", "適時開示"]),
    (
        "disclosure.title",
        &["2026年3月期 第3四半期決算短信", "業績予想の修正に関するお知らせ", "自己株式の取得"],
    ),
    ("track", &["Tokyo", "Nakayama", "Hanshin", "Kyoto", "Chukyo", "Kokura"]),
    ("sire", &["Deep Impact", "Lord Kanaloa", "Kizuna", "Epiphaneia", "Duramente"]),
    ("dam", &["Gentildonna", "Almond Eye", "Buena Vista", "Vodka", "Apapane"]),
    ("horse", &["Equinox", "Liberty Island", "Do Deuce", "Titleholder", "Geraldina", "Stars on Earth"]),
    ("result", &["Arima Kinen", "Tenno Sho", "Japan Cup", "Satsuki Sho"]),
    ("weather", &["clear sky", "few clouds", "light rain", "scattered clouds", "thunderstorm"]),
    ("country", &["DE", "FR", "SE", "JP", "BR", "IT", "ES", "DK"]),
    ("city", &["Malmö", "Kyoto", "Lyon", "Leipzig", "Porto"]),
    ("status", &["available", "sold", "reserved"]),
    ("price", &["129.00 EUR", "45.50 EUR", "1,250.00 EUR", "9.90 EUR"]),
    ("kind", &["product", "category", "listing"]),
    ("type", &["product", "category", "listing"]),
    ("title", &["Emma", "The Sea", "A Winter's Walk", "Notes on Maps", "The Long Table"]),
    ("description", &["as new", "with a small flaw", "from a private collection"]),
    ("message", &["the page has no table", "it took too long", "the answer was empty"]),
    ("email", &["ada@example.com", "kenji@example.com", "maria@example.com"]),
    ("version", &["1.0", "1.1", "2.0"]),
    ("source", &["web", "feed", "manual"]),
    ("author", PEOPLE),
    ("owner", PEOPLE),
    ("reader", PEOPLE),
    ("user", PEOPLE),
    ("jockey", PEOPLE),
    ("name", PEOPLE),
];

pub(super) fn of(owner: &str, name: &str) -> Option<&'static [&'static str]> {
    let path = format!("{}.{}", owner.to_lowercase(), name.to_lowercase());
    // A name that is its own says more than one that its owner has in it.
    let own = LISTS.iter().find(|(word, _)| word.contains('.') && path.ends_with(word));
    let own = own.or_else(|| LISTS.iter().find(|(word, _)| name.to_lowercase().contains(word)));
    own.map(|(_, list)| *list)
}

/// Whether a name ends in one of these words.
pub(super) fn is_of(name: &str, words: &[&str]) -> bool {
    let last = name.rsplit('_').next().unwrap_or(name).to_lowercase();
    words.contains(&last.as_str())
}

/// Between which numbers a value of this name usually is.
pub(super) fn numbers(name: &str) -> (f64, f64) {
    for (words, range) in [
        (&["year"][..], (2024.0, 2026.0)),
        (&["month"], (1.0, 12.0)),
        (&["week"], (1.0, 52.0)),
        (&["day"], (1.0, 28.0)),
        (&["hour"], (0.0, 23.0)),
        (&["lat", "latitude"], (-35.0, 60.0)),
        (&["lon", "longitude"], (-120.0, 140.0)),
        (&["temperature", "celsius"], (-5.0, 32.0)),
        (&["humidity"], (25.0, 99.0)),
        (&["speed"], (0.0, 15.0)),
        (&["intensity"], (0.0, 8.0)),
        (&["rate", "share", "completeness", "accuracy", "probability"], (0.0, 1.0)),
        (&["price", "amount", "cost"], (79.0, 189.0)),
        (&["number", "seq", "count"], (1.0, 12.0)),
        (&["progress", "percent"], (0.0, 100.0)),
    ] {
        if is_of(name, words) {
            return range;
        }
    }
    (1.0, 1000.0)
}
