//! The transcripts in `cmd/` are the manual of the commands, and what they show is what happens.

#[test]
fn commands_do_what_the_manual_shows() {
    trycmd::TestCases::new().env("NO_COLOR", "1").case("tests/cmd/*.md");
}
