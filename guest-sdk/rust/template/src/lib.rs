//! A Greenroom guest with one actor type, `Counter`.

use greenroom::prelude::*;

greenroom::record! {
    /// The state of one counter: loaded before a method, saved after it.
    #[derive(Default)]
    pub struct Counter {
        count: i64,
    }

    /// The payload of `Add`.
    #[derive(Default)]
    pub struct AddRequest {
        amount: i64,
    }
}

impl Counter {
    /// Adds to the counter and answers the new value. An error undoes the whole
    /// turn and reaches the caller with its code.
    fn add(&mut self, ctx: &Context, request: AddRequest) -> Result<i64, Error> {
        let amount = request.amount;
        ensure!(
            amount > 0,
            Error::invalid_argument(
                "bad_amount",
                format!("amount is {amount}; give a positive number"),
            )
        );
        self.count = self.count.saturating_add(amount);
        ctx.info(format_args!("added {amount}, now {}", self.count));
        Ok(self.count)
    }

    /// Answers the value. A method that takes `&self` and `&ReadContext` is
    /// read-only: it may run beside others, and answers HTTP GET.
    fn get(&self, _: &ReadContext) -> Result<i64, Error> {
        Ok(self.count)
    }
}

greenroom::actors! {
    Counter {
        methods: {
            "Add" => add,
            "Get" => get,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use greenroom::testing::Host;

    #[test]
    fn adds_up() {
        let host = Host::new();
        let me = host.actor::<Counter>("me");
        for count in [2, 4] {
            assert_eq!(me.call("Add", AddRequest { amount: 2 }), Ok(count));
        }
        assert_eq!(me.query("Get", ()), Ok(4));
    }

    #[test]
    fn refuses_negative_amounts() {
        let host = Host::new();
        let me = host.actor::<Counter>("me");
        let refused = me.call::<i64>("Add", AddRequest { amount: -1 });
        assert_eq!(refused.unwrap_err().code(), "bad_amount");
        assert_eq!(me.version(), 0); // nothing was stored
    }
}
