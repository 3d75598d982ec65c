//! Bank accounts in plain blocking code: a transfer asks one account after the other, and one that is slow holds up nobody else.
//!
//! `cargo run -p sinew-kernel --example bank`

use std::time::Duration;

use sinew_kernel::{Actor, ActorRef, AskError, Ctx, Flow, Node, Reply};
use sinew_sched::{sleep, spawn};

struct Account {
    balance: u64,
}

enum Request {
    Balance(Reply<u64>),
    Deposit(u64, Reply<u64>),
    Withdraw(u64, Reply<Result<u64, Poor>>),
    Audit,
}

/// There is less in the account than that.
#[derive(Debug)]
struct Poor {
    balance: u64,
}

impl Actor for Account {
    type Msg = Request;

    fn handle(&mut self, request: Request, _: &mut Ctx<Request>) -> Flow {
        match request {
            Request::Balance(reply) => reply.send(self.balance),
            Request::Deposit(amount, reply) => {
                self.balance += amount;
                reply.send(self.balance);
            }
            Request::Withdraw(amount, reply) => reply.send(match self.balance.checked_sub(amount) {
                Some(rest) => {
                    self.balance = rest;
                    Ok(rest)
                }
                None => Err(Poor { balance: self.balance }),
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
    if let Err(Poor { balance }) = taken {
        println!("{amount} was not moved: there is only {balance}");
        return Ok(false);
    }
    to.ask(|reply| Request::Deposit(amount, reply))?;
    Ok(true)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let node = Node::new();
    let [ann, bob] = [100, 20].map(|balance| node.spawn(Account { balance }).expect("there is room"));

    bob.tell(Request::Audit)?;
    let hurried = bob.ask_timeout(Request::Balance, Duration::from_millis(5));
    println!("while bob is audited: {}", hurried.expect_err("the audit takes longer"));
    println!("ann, meanwhile: {}", ann.ask(Request::Balance)?);

    let (from, to) = (ann.clone(), bob.clone());
    let moved = node.run(move || {
        let transfers: Vec<_> = (0..12)
            .map(|_| {
                let (from, to) = (from.clone(), to.clone());
                spawn(move || transfer(&from, &to, 10))
            })
            .collect();
        transfers.into_iter().map(|task| task.join()).filter(|end| matches!(end, Ok(Ok(true)))).count()
    });
    let (ann, bob) = (ann.ask(Request::Balance)?, bob.ask(Request::Balance)?);
    println!("{} of 12 transfers: ann has {ann}, bob has {bob}", moved.map_err(|raised| raised.to_string())?);
    assert_eq!((ann, bob), (0, 120));
    Ok(())
}
