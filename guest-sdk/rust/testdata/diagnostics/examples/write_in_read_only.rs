// says: no method named `set` found for struct `StateReader

use greenroom::prelude::*;

greenroom::record! {
    #[derive(Default)]
    pub struct Cart { total: i64 }
}

impl Cart {
    fn note(&self, ctx: &ReadContext, text: String) -> Result<(), Error> {
        ctx.state().set("note", &text)
    }
}

greenroom::actors! { Cart { methods: { "Note" => note } } }

fn main() {}
