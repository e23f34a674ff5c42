//! A guest whose readers subscribe to the events of papers, as that of ../paper in Go.

use greenroom::event::{GONE, PASSED_AWAY};
use greenroom::prelude::*;
use greenroom::Ref;
use std::collections::BTreeMap;

/// Publishes numbered issues.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Paper {
    issues: i64,
}

#[greenroom::actor(events(count = 40))]
impl Paper {
    /// Publishes so many issues.
    fn publish(&mut self, ctx: &Context, n: i64) -> Result<i64, Error> {
        for _ in 0..n {
            self.issues += 1;
            ctx.publish("issue", self.issues)?;
        }
        Ok(self.issues)
    }

    /// Ends the paper's life. Its next one begins with the first issue.
    fn end(&mut self, ctx: &Context) -> Result<(), Error> {
        ctx.pass_away()
    }
}

/// Reads papers.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Reader {
    /// The last issue that was read of each paper, and the first one.
    last: BTreeMap<String, i64>,
    first: BTreeMap<String, i64>,
    /// Counts the issues that came before an earlier one, or again, or with a gap that was not
    /// reported.
    disorder: i64,
    /// Counts the reports of gaps.
    gone: i64,
    /// Counts the reports of papers that have passed away.
    ended: i64,
    /// Whether the next issue may be any later one.
    skips: bool,
    read: i64,
    /// After how many issues it unsubscribes; 0: never.
    stops: i64,
    /// The issue that fails at the first attempts.
    fails: i64,
    /// What the last issue said of itself.
    cause: String,
}

/// What a reader subscribes to.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Order {
    paper: String,
    stops: i64,
    fails: i64,
    /// Whether the turn fails.
    lost: bool,
}

fn paper(id: &str) -> Ref {
    Ref::of::<Paper>(id)
}

#[greenroom::actor]
impl Reader {
    /// Subscribes to a paper.
    fn subscribe(&mut self, ctx: &Context, o: Order) -> Result<(), Error> {
        self.stops = o.stops;
        self.fails = o.fails;
        ctx.subscribe(&paper(&o.paper), "Issue")?;
        ensure!(
            !o.lost,
            Error::failed_precondition("told_to", "as it was told")
        );
        Ok(())
    }

    /// Subscribes to so many papers.
    fn many(&mut self, ctx: &Context, n: u32) -> Result<(), Error> {
        for i in 0..n {
            ctx.subscribe(&paper(&format!("many-{i}")), "Issue")?;
        }
        Ok(())
    }

    /// Ends a subscription.
    fn unsubscribe(&mut self, ctx: &Context, id: String) -> Result<bool, Error> {
        ctx.unsubscribe(&paper(&id))
    }

    /// Reads an issue.
    fn issue(&mut self, ctx: &Context, n: Option<i64>) -> Result<(), Error> {
        let cause = ctx.cause();
        let n = match n {
            Some(n) => n,
            None if cause.failed == PASSED_AWAY => {
                ensure!(
                    cause.attempt > 1,
                    Error::failed_precondition("not_yet", "not at this attempt")
                );
                self.ended += 1;
                if let Some(from) = cause.from {
                    self.last.remove(&from.id);
                }
                return Ok(());
            }
            None => {
                let message = format!("an issue without a number: {:?}", cause.failed);
                ensure!(cause.failed == GONE, Error::internal("no_issue", message));
                self.gone += 1;
                self.skips = true;
                return Ok(());
            }
        };
        ensure!(
            n != self.fails || cause.attempt >= 3,
            Error::failed_precondition("not_yet", "not at this attempt")
        );
        let from = cause.from.unwrap_or_else(|| paper("nobody"));
        match self.last.insert(from.id.clone(), n) {
            None => {
                self.first.insert(from.id.clone(), n);
            }
            Some(last) => {
                if n <= last || n != last + 1 && !self.skips {
                    self.disorder += 1;
                }
            }
        }
        self.skips = false;
        let kind = format!("{:?}", cause.kind).to_lowercase();
        self.cause = format!("{kind} {} of {}", cause.name, from.actor_type);
        self.read += 1;
        if self.read == self.stops {
            ctx.unsubscribe(&from)?;
        }
        Ok(())
    }

    /// Ends the reader's life.
    fn end(&mut self, ctx: &Context) -> Result<(), Error> {
        ctx.pass_away()
    }

    /// What the reader has read.
    fn view(&self, _: &ReadContext) -> Result<Reader, Error> {
        Ok(self.clone())
    }
}

/// A reader of another placement.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Anywhere {
    reader: Reader,
}

#[greenroom::actor(placement = any)]
impl Anywhere {
    fn subscribe(&mut self, ctx: &Context, o: Order) -> Result<(), Error> {
        self.reader.subscribe(ctx, o)
    }

    fn issue(&mut self, ctx: &Context, n: Option<i64>) -> Result<(), Error> {
        self.reader.issue(ctx, n)
    }

    fn view(&self, ctx: &ReadContext) -> Result<Reader, Error> {
        self.reader.view(ctx)
    }
}

greenroom::module! { Paper, Reader, Anywhere }
