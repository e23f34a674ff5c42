// says: `in` of "Reopen" is not known here; method sets need #[greenroom::actor]

use greenroom::prelude::*;

greenroom::record! {
    #[derive(Default)]
    pub struct Cart { total: i64 }
}

impl Cart {
    fn view(&self, _: &ReadContext) -> Result<i64, Error> {
        Ok(self.total)
    }

    fn reopen(&mut self, ctx: &Context) -> Result<(), Error> {
        ctx.become_("open")
    }
}

greenroom::actors! {
    Cart {
        methods: {
            "View" => view,
            "Reopen" => idempotent in "shut" reopen,
        },
    }
}

fn main() {}
