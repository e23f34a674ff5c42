//! Who an actor is, for other actors of its app.

use std::fmt;

/// Names an actor inside its app. Without a type it names the actor that stands for the
/// service `id`: see [`Ref::service`].
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

    /// Type, ID and service, as a message frame has them.
    pub(crate) fn parts(&self) -> (&str, &str, &str) {
        if self.actor_type.is_empty() {
            return ("", "", &self.id);
        }
        (&self.actor_type, &self.id, "")
    }
}

impl fmt::Display for Ref {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.actor_type.is_empty() {
            return write!(f, "service||{}", self.id);
        }
        write!(f, "{}||{}", self.actor_type, self.id)
    }
}
