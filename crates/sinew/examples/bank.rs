//! Bank accounts in plain blocking code: a transfer asks one account after the other, and a slow
//! account delays only its own requests.
//!
//! `cargo run -p sinew --example bank`

use std::time::Duration;

use sinew::actor::{Actor, ActorRef, AskError, Ctx, Flow, Node, Reply};
use sinew::task::spawn;
use sinew::time::sleep;

struct Account(u64);

enum Request {
    Balance(Reply<u64>),
    Deposit(u64, Reply<u64>),
    Withdraw(u64, Reply<Result<u64, Poor>>),
    Audit,
}

/// There is only so much in the account.
struct Poor(u64);

impl Actor for Account {
    type Msg = Request;

    fn handle(&mut self, request: Request, _: &mut Ctx<Request>) -> Flow {
        match request {
            Request::Balance(reply) => reply.send(self.0),
            Request::Deposit(amount, reply) => {
                self.0 += amount;
                reply.send(self.0);
            }
            Request::Withdraw(amount, reply) => reply.send(match self.0.checked_sub(amount) {
                Some(rest) => {
                    self.0 = rest;
                    Ok(rest)
                }
                None => Err(Poor(self.0)),
            }),
            // Only this account waits; its requests do too, in order.
            Request::Audit => sleep(Duration::from_millis(100)),
        }
        Flow::Continue
    }
}

/// Moves money. The account that gives is asked first, so none is made.
fn transfer(from: &ActorRef<Request>, to: &ActorRef<Request>, amount: u64) -> Result<bool, AskError> {
    let taken = from.ask(|reply| Request::Withdraw(amount, reply))?;
    if let Err(Poor(balance)) = taken {
        println!("{amount} was not moved: there is only {balance}");
        return Ok(false);
    }
    to.ask(|reply| Request::Deposit(amount, reply))?;
    Ok(true)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let node = Node::new();
    let [ann, bob] = [100, 20].map(|balance| node.spawn(Account(balance)).expect("there is room"));

    bob.tell(Request::Audit)?;
    let late =
        bob.ask_timeout(Request::Balance, Duration::from_millis(5)).expect_err("the audit takes longer");
    println!("while bob is audited: {late}; ann, meanwhile: {}", ann.ask(Request::Balance)?);

    let (from, to) = (ann.clone(), bob.clone());
    let moved = node.run(move || {
        let start = |_| {
            let (from, to) = (from.clone(), to.clone());
            spawn(move || transfer(&from, &to, 10))
        };
        let transfers: Vec<_> = (0..12).map(start).collect();
        transfers.into_iter().map(|task| task.join()).filter(|end| matches!(end, Ok(Ok(true)))).count()
    });
    let (moved, ann, bob) =
        (moved.expect("it returns"), ann.ask(Request::Balance)?, bob.ask(Request::Balance)?);
    println!("{moved} of 12 transfers: ann has {ann}, bob has {bob}");
    assert_eq!((ann, bob), (0, 120));
    Ok(())
}
