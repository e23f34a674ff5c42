//! A guest whose foremen have helpers in memory, as that of ../crew in Go.

use greenroom::prelude::*;
use greenroom::{Mailbox, Ref};

/// Has helpers.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Foreman {
    helpers: Vec<String>,
    /// What the helpers have reported.
    done: i64,
}

#[greenroom::actor]
impl Foreman {
    /// Makes a helper, that shares the foreman's mailbox or not, and tells it to add 1.
    fn hire(&mut self, ctx: &Context, shared: bool) -> Result<usize, Error> {
        let mailbox = if shared { Mailbox::Shared } else { Mailbox::Own };
        let helper = ctx.spawn_child::<Helper>(mailbox)?;
        helper.message("Add", &1).tell(ctx)?;
        self.helpers.push(helper.id);
        Ok(self.helpers.len())
    }

    /// Has all helpers add, and returns what the last one has then.
    fn ask(&mut self, ctx: &Context, n: i64) -> Result<i64, Error> {
        let mut last = 0;
        for helper in self.helpers.clone() {
            let helper = Ref::of::<Helper>(helper);
            last = helper.message("Add", &n).call(ctx, self)?;
        }
        Ok(last)
    }

    /// `ask` of a turn that fails.
    fn ask_and_fail(&mut self, ctx: &Context, n: i64) -> Result<i64, Error> {
        let last = self.ask(ctx, n)?;
        Err(Error::new(
            Status::Aborted,
            "on_purpose",
            format!("the helpers had {last}"),
        ))
    }

    /// Has all helpers tell the foreman what they have.
    fn report(&mut self, ctx: &Context) -> Result<(), Error> {
        for helper in self.helpers.clone() {
            let own = ctx.id().to_string();
            let helper = Ref::of::<Helper>(helper);
            helper.message("Report", &own).tell(ctx)?;
        }
        Ok(())
    }

    #[method(private)]
    fn reported(&mut self, _: &Context, sum: i64) -> Result<(), Error> {
        self.done += sum;
        Ok(())
    }

    fn view(&self, _: &ReadContext) -> Result<i64, Error> {
        Ok(self.done)
    }
}

/// Adds up.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Helper {
    sum: i64,
}

#[greenroom::actor]
impl Helper {
    fn add(&mut self, _: &Context, n: i64) -> Result<i64, Error> {
        self.sum += n;
        Ok(self.sum)
    }

    #[method(private)]
    fn report(&mut self, ctx: &Context, to: String) -> Result<(), Error> {
        let to = Ref::of::<Foreman>(to);
        to.message("Reported", &self.sum).tell(ctx)
    }
}

greenroom::module! { Foreman, Helper }
