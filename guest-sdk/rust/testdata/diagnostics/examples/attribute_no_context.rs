// says: `add` takes no context after `self`. A method is written: fn name(&mut self, ctx: &Context, argument: T) -> Result<R, Error>
// says:     fn add(&mut self, n: i64)
// says: `touch` returns nothing; a method returns a Result: write `-> Result<(), Error>`, and `Ok(())` at its end

use greenroom::prelude::*;

greenroom::record! {
    #[derive(Default)]
    pub struct Cart { total: i64 }
}

#[greenroom::actor]
impl Cart {
    fn add(&mut self, n: i64) -> Result<i64, Error> {
        self.total += n;
        Ok(self.total)
    }

    fn touch(&mut self, _: &Context) {}
}

greenroom::module! { Cart }

fn main() {}
