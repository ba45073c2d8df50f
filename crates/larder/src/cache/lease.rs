//! One load per key across processes: whoever gets a short lease in the store loads, the rest look again until
//! the value is there.
//!
//! Nothing hangs on the lease: a process that dies loses it by time, and one that has waited long enough loads
//! without it.

/// The store, as far as the lease needs it.
pub(crate) trait Place {
    type Found;
    type Error;

    /// Takes the lease, unless somebody has it or has stored a value since.
    async fn take(&self) -> Result<bool, Self::Error>;

    /// What somebody else has stored.
    async fn look(&self) -> Result<Option<Self::Found>, Self::Error>;

    /// Waits a little, for the `asked`th time. False when the waiting is over.
    async fn pause(&self, asked: u32) -> bool;
}

/// Whose turn it is to load.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn<F, E> {
    /// We have the lease.
    Ours,
    /// Somebody else has loaded it.
    Theirs(F),
    /// Nobody has answered for long enough: load without a lease.
    Nobody,
    /// The store cannot say: load without a lease.
    Unknown(E),
}

pub(crate) async fn turn<P: Place>(place: &P) -> Turn<P::Found, P::Error> {
    let mut asked = 0;
    loop {
        match place.take().await {
            Ok(true) => return Turn::Ours,
            Ok(false) => {}
            Err(error) => return Turn::Unknown(error),
        }
        match place.look().await {
            Ok(Some(found)) => return Turn::Theirs(found),
            Ok(None) => {}
            Err(error) => return Turn::Unknown(error),
        }
        if !place.pause(asked).await {
            return Turn::Nobody;
        }
        asked += 1;
    }
}
