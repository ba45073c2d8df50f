use larder_model::Item;

use crate::{item, list, map, scope};

fn sample() -> Item {
    item([
        ("a", 1.into()),
        ("xs", list(["x", "y", "z"])),
        ("doc", map([("n", 1.into()), ("nest", map([("deep", 2.into()), ("extra", 3.into())]))])),
        ("recs", list([map([("p", 1.into()), ("q", 2.into())]), map([("p", 3.into())])])),
        ("x.y", "dotted".into()),
        ("språk", "svenska".into()),
    ])
}

fn check(projection: &str, expected: &Item) {
    assert_eq!(scope().projection(projection).unwrap().apply(&sample()), *expected, "{projection}");
}

#[test]
fn only_what_is_named_is_kept() {
    check("a, gone", &item([("a", 1.into())]));
    check("#dotted, #tongue", &item([("x.y", "dotted".into()), ("språk", "svenska".into())]));
    check("doc.nest.deep", &item([("doc", map([("nest", map([("deep", 2.into())]))]))]));
    check(
        "doc.n, doc.nest.extra",
        &item([("doc", map([("n", 1.into()), ("nest", map([("extra", 3.into())]))]))]),
    );
    check("doc.gone, a.b, xs.n, x.y", &Item::new());
    check("doc[0], recs[0].p.q", &Item::new());
}

#[test]
fn lists_close_up_in_their_own_order() {
    check("xs[2], xs[0]", &item([("xs", list(["x", "z"]))]));
    check("xs[7]", &Item::new());
    check("recs[1].p, recs[0].q", &item([("recs", list([map([("q", 2.into())]), map([("p", 3.into())])]))]));
    check("recs[0].q, recs[0].p", &item([("recs", list([map([("p", 1.into()), ("q", 2.into())])]))]));
    check("recs[1].q, recs[0].q", &item([("recs", list([map([("q", 2.into())])]))]));
}
