//! How far something is that takes a while, and what came of it.

use maud::html;

use super::{Fault, Page, Room, layout};
use crate::address::Url;
use crate::show;

pub(super) fn show(room: &Room<'_>, id: &str) -> Page {
    let work = room.house.works().find(id);
    let work = work.ok_or_else(|| {
        Fault::Absent(
            "That work is not known here: the console was started again, or has done many others since."
                .to_owned(),
        )
    })?;
    let state = work.state();
    let here = Url::to(["progress", id]);
    let main = html! {
        h1 { (work.title) }
        // The script asks again while there is something to ask for.
        div #work aria-live="polite" data-again=[state.over.is_none().then_some("1")] {
            @match &state.over {
                None => {
                    p.notice { "Under way" @if !state.told.is_empty() { ": " (state.told) } }
                    @match state.of {
                        Some(of) => { progress aria-label="How far it is" max=(of.max(1)) value=(state.done.min(of)) {} " " (show::number(state.done)) " of " (show::number(of)) },
                        None => progress aria-label="How far it is" {},
                    }
                    p { a.button.small href=(here) { "Look again" } " " span.quiet { "It goes on when this page is closed." } }
                }
                Some(Ok(())) => p.notice.good role="status" { (state.told) },
                Some(Err(wrong)) => {
                    @if !state.told.is_empty() { p { (state.told) } }
                    (layout::wrong(wrong))
                }
            }
        }
        p { a.button href=(work.back) { "Back" } }
    };
    Ok(room.page_of(&work.title, "", &main))
}
