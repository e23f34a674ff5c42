// says: a method cannot fail with `ParseIntError`: there is no `From<ParseIntError>` for `greenroom::Error`
// says:     fn add(&mut self, _: &Context, n: String)
// says: a method returns a `Result`, and not `i64`
// says:     fn twice(&mut self, _: &Context) -> i64
// says: {Cart::view}` is declared `read_only`, but its types let it change `Cart`
// says:     fn view(&mut self, _: &Context)

use greenroom::prelude::*;

greenroom::record! {
    #[derive(Default)]
    pub struct Cart { total: i64 }
}

#[greenroom::actor]
impl Cart {
    fn add(&mut self, _: &Context, n: String) -> Result<i64, std::num::ParseIntError> {
        self.total += n.parse::<i64>()?;
        Ok(self.total)
    }

    fn twice(&mut self, _: &Context) -> i64 {
        self.total * 2
    }

    #[method(read_only)]
    fn view(&mut self, _: &Context) -> Result<i64, Error> {
        Ok(self.total)
    }
}

greenroom::module! { Cart }

fn main() {}
