//! One load per key across processes: whoever takes the flight of the key in the store loads, the rest look again until
//! the value is there.
//!
//! Nothing hangs on the flight: a process that dies loses it by time, and one that has waited long enough loads
//! without it.

/// The store, as far as a flight needs it.
pub(crate) trait FlightStore {
    type Found;
    type Error;

    /// Takes the flight, unless somebody has it or has stored a value since.
    async fn take(&self) -> Result<bool, Self::Error>;

    /// What somebody else has stored.
    async fn look(&self) -> Result<Option<Self::Found>, Self::Error>;

    /// Waits a little, for the `asked`th time. False when the waiting is over.
    async fn pause(&self, asked: u32) -> bool;
}

/// Whose load it is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Winner<F, E> {
    /// We have the flight.
    Ours,
    /// Somebody else has loaded it.
    Theirs(F),
    /// Nobody has answered for long enough: load without it.
    Nobody,
    /// The store cannot say: load without it.
    Unknown(E),
}

pub(crate) async fn race<P: FlightStore>(store: &P) -> Winner<P::Found, P::Error> {
    let mut asked = 0;
    loop {
        match store.take().await {
            Ok(true) => return Winner::Ours,
            Ok(false) => {}
            Err(error) => return Winner::Unknown(error),
        }
        match store.look().await {
            Ok(Some(found)) => return Winner::Theirs(found),
            Ok(None) => {}
            Err(error) => return Winner::Unknown(error),
        }
        if !store.pause(asked).await {
            return Winner::Nobody;
        }
        asked += 1;
    }
}
