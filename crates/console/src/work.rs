//! What takes a while: it goes on by itself, and a page tells how far it is.
//!
//! A work belongs to the console, not to the page that began it: a reader who leaves does not end it. The last few are
//! remembered.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::address::Url;

/// How many are remembered, and how many can be under way.
const WORKS_MAX: usize = 20;

/// All works of a console.
#[derive(Debug, Default)]
pub(crate) struct Works(Mutex<(u64, Vec<Arc<Work>>)>);

/// One of them.
#[derive(Debug)]
pub(crate) struct Work {
    id: u64,
    pub(crate) title: String,
    /// Where the reader goes from its page.
    pub(crate) back: Url,
    state: Mutex<State>,
}

/// How far it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// In words.
    pub(crate) told: String,
    pub(crate) done: u64,
    /// All of it, as far as that is known.
    pub(crate) of: Option<u64>,
    pub(crate) over: Option<Result<(), String>>,
}

impl Work {
    pub(crate) fn state(&self) -> State {
        self.state.lock().clone()
    }

    pub(crate) fn tell(&self, done: u64, told: String) {
        let mut state = self.state.lock();
        (state.done, state.told) = (done, told);
    }
}

impl Works {
    pub(crate) fn find(&self, id: &str) -> Option<Arc<Work>> {
        let id: u64 = id.parse().ok()?;
        self.0.lock().1.iter().find(|work| work.id == id).cloned()
    }

    /// Begins one and gives the address of its page; `None` when too many are under way.
    pub(crate) fn begin<F>(
        &self,
        title: String,
        back: Url,
        of: Option<u64>,
        run: impl FnOnce(Arc<Work>) -> F,
    ) -> Option<Url>
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        let work = {
            let mut works = self.0.lock();
            if works.1.len() >= WORKS_MAX {
                let ended = works.1.iter().position(|work| work.state.lock().over.is_some())?;
                works.1.remove(ended);
            }
            works.0 += 1;
            let state = Mutex::new(State { of, ..State::default() });
            let work = Arc::new(Work { id: works.0, title, back, state });
            works.1.push(Arc::clone(&work));
            work
        };
        let url = Url::to(["progress", &work.id.to_string()]);
        let running = tokio::spawn(run(Arc::clone(&work)));
        tokio::spawn(async move {
            let over = running.await.unwrap_or_else(|error| Err(format!("it broke off: {error}")));
            work.state.lock().over = Some(over);
        });
        Some(url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn as_many_are_under_way_as_there_is_room_for_and_the_oldest_that_ended_is_forgotten() {
        let works = Works::default();
        let begin = |run: bool| {
            let back = Url::to([]);
            works.begin("test".to_owned(), back, None, |_| async move {
                if run { std::future::pending().await } else { Ok(()) }
            })
        };
        let first = begin(false).expect("there is room").to_string();
        assert_eq!(first, "/progress/1");
        while works.find("1").is_some_and(|work| work.state().over.is_none()) {
            tokio::task::yield_now().await;
        }
        for _ in 1..WORKS_MAX {
            assert!(begin(true).is_some());
        }
        assert!(begin(true).is_some(), "what has ended gives way");
        assert!(works.find("1").is_none());
        assert!(begin(true).is_none(), "all are under way");
    }
}
