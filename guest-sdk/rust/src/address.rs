//! Who an actor is, for other actors of its app.

use std::fmt;

/// Names an actor inside its app.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Ref {
    /// Its type.
    pub actor_type: String,
    /// Its ID.
    pub id: String,
}

impl Ref {
    /// The actor of this type and ID.
    #[must_use]
    pub fn new(actor_type: impl Into<String>, id: impl Into<String>) -> Ref {
        Ref {
            actor_type: actor_type.into(),
            id: id.into(),
        }
    }
}

impl fmt::Display for Ref {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}||{}", self.actor_type, self.id)
    }
}
