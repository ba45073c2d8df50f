//! The page that asks for a key.

use larder_model::Arn;
use maud::{Markup, html};

use super::layout;
use crate::address::{Given, Url, segments};
use crate::keys::Keys;
use crate::safety::TOKEN;

/// The name of the field with the page to go to.
pub(crate) const TO: &str = "to";

/// The page, with what was wrong before.
pub(crate) fn page(token: &str, keys: &Keys, given: &Given, wrong: Option<&str>) -> Markup {
    let main = html! {
        h1 { "Sign in" }
        p.quiet { "With an access key of " span.mono { (keys.place().trim_start_matches("dynamodb:")) } ": what you may do there, you may do here." }
        @if let Some(wrong) = wrong { p.notice.bad #wrong role="alert" { (wrong) } }
        form.record method="post" action="/sign-in" {
            input type="hidden" name=(TOKEN) value=(token);
            @if let Some(to) = given.said(TO) { input type="hidden" name=(TO) value=(to); }
            div.field {
                label for="key" { "Access key ID" }
                input #key name="key" value=[given.get("key")] required autofocus[wrong.is_none()] autocomplete="username" autocapitalize="none" spellcheck="false"
                    aria-invalid=[wrong.map(|_| "true")] aria-describedby=[wrong.map(|_| "wrong")];
            }
            div.field {
                label for="secret" { "Secret access key" }
                input #secret name="secret" type="password" required autofocus[wrong.is_some()] autocomplete="current-password"
                    aria-invalid=[wrong.map(|_| "true")] aria-describedby=[wrong.map(|_| "wrong")];
            }
            div.field {
                label for="region" { "Region" }
                input #region name="region" value=(given.said("region").unwrap_or(Arn::REGION)) autocomplete="off" autocapitalize="none" spellcheck="false";
            }
            div.do { button.primary type="submit" { "Sign in" } }
        }
        p.quiet { code { "larder access add NAME --policy FILE" } " makes a key, on the machine of the server." }
    };
    layout::alone("Sign in", &main)
}

/// Where to go after it: a page of ours, whatever was written.
pub(crate) fn destination(given: &Given) -> Url {
    let to = given.said(TO).unwrap_or("/");
    let (path, query) = to.split_once('?').unwrap_or((to, ""));
    let path = segments(path);
    Given::read(query).onto(Url::to(path.iter().map(String::as_str)))
}

/// Opens the same page again, now from here: a link of another site brings no cookie.
pub(crate) fn again(to: &Url) -> Markup {
    layout::alone_and_on("Larder", to, &html! { p { a href=(to) { "Go on" } } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_signing_in_nobody_is_led_elsewhere() {
        for (to, url) in [
            ("", "/"),
            ("/items/a?by=all", "/items/a?by=all"),
            ("//evil.example/x", "/evil.example/x"),
            ("https://evil.example/", "/https%3A/evil.example"),
            ("/\\evil.example", "/%5Cevil.example"),
            ("/a\r\nset-cookie: x", "/a%0D%0Aset-cookie%3A%20x"),
        ] {
            let given: Given = [(TO.to_owned(), to.to_owned())].into_iter().collect();
            assert_eq!(destination(&given).to_string(), url);
        }
    }
}
