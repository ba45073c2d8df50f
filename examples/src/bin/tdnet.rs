//! A day's disclosures, collected into a table that is never emptied.
//!
//! Shows records: numbers given in sequence, refused records with all that is wrong, a run that goes from pending to
//! completed and can be watched meanwhile, queries by company and by month, and an export whose link expires on
//! its own.
//!
//! ```console
//! $ cargo run -p larder-examples --bin tdnet
//! $ cargo run -p larder-examples --bin tdnet -- --base-url https://www.release.tdnet.info --date 2024-01-31
//! ```

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use larder::jiff::civil::{Date, Time};
use larder::jiff::tz::TimeZone;
use larder::jiff::{Timestamp, ToSpan};
use larder_examples::Options;
use larder_examples::source::tdnet::{Listed, Tdnet as Site};
use larder_examples::tdnet::{ExecutionStatus, NewExecution, NewExport, Tdnet};
use uuid::Uuid;

/// Collects the disclosures of a day.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    options: Options,
    /// The day, in Tokyo.
    #[arg(long, default_value = "2024-01-31")]
    date: Date,
    /// A company whose disclosures are listed.
    #[arg(long, default_value = "7203")]
    company: String,
}

#[tokio::main]
async fn main() -> ExitCode {
    larder_examples::end(run(Arguments::parse()).await)
}

async fn run(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let Arguments { options, date, company } = arguments;
    let (_origin, url) = options.origin().await?;
    let site = Site::new(&url)?;
    let tdnet = Tdnet::open(options.store().await?).await?;

    collect(&tdnet, &site, date).await?;

    println!("\ncompany {company}, newest first");
    let mut found = tdnet.disclosures().by_company(company).newest_first().limit(5).all().await?;
    for disclosure in &found {
        println!("  {}  {}  {}", disclosure.disclosure_id, disclosure.disclosed_at, disclosure.title);
    }

    let month = date.strftime("%Y-%m").to_string();
    found = tdnet.disclosures().by_month(&*month).newest_first().all().await?;
    println!("\nmonth {month}: {} disclosures", found.len());
    for disclosure in found.iter().take(3) {
        println!(
            "  {}  {}  {}",
            disclosure.disclosure_id, disclosure.disclosure_type, disclosure.company_name
        );
    }

    export(&tdnet, found.len()).await?;
    Ok(())
}

/// One run of the collector. Whatever becomes of it, the run says so.
async fn collect(tdnet: &Tdnet, site: &Site, date: Date) -> Result<(), Box<dyn Error>> {
    let run = tdnet.executions().create(NewExecution::new(Uuid::new_v4())).await?;
    println!("run {} is {}", run.execution_id, state(run.status()));
    let run = run.start().await?;
    println!("  {:<10} {:>3} %", state(run.status()), run.progress);

    let listed = match site.day(date).await {
        Ok(listed) => listed,
        Err(error) => {
            run.fail(error.to_string()).await?;
            return Err(error.into());
        }
    };
    let now = Timestamp::from_second(tdnet.store().clock().now().seconds())?;
    let (mut known, mut refused) = (0, Vec::new());
    for (at, entry) in (1..).zip(&listed) {
        let mut update = tdnet.executions().update(run.key()).progress(at * 100 / listed.len() as i64);
        if is_known(tdnet, entry, date).await? {
            known += 1;
        } else {
            match tdnet.disclosures().create(entry.disclosure(now)).await {
                Ok(_) => update = update.add_success_count(1),
                Err(larder::Error::Invalid(invalid)) => {
                    update = update.add_failed_count(1);
                    refused.push(invalid);
                }
                Err(error) => {
                    run.fail(error.to_string()).await?;
                    return Err(error.into());
                }
            }
        }
        let run = update.await?;
        println!("  {:<10} {:>3} %", state(run.status()), run.progress);
    }

    let run = run.complete().await?;
    println!("  {:<10} {:>3} %", state(run.status()), run.progress);
    println!(
        "{} listed, {} new, {known} known, {} refused",
        listed.len(),
        run.success_count,
        run.failed_count
    );
    for invalid in refused {
        for violation in invalid.violations {
            println!("  {violation}");
        }
    }
    Ok(())
}

fn state(status: Option<ExecutionStatus>) -> &'static str {
    status.map_or("unknown", ExecutionStatus::as_str)
}

/// A run over a day that was collected before adds what is new.
async fn is_known(tdnet: &Tdnet, entry: &Listed, date: Date) -> Result<bool, Box<dyn Error>> {
    let tokyo = TimeZone::get("Asia/Tokyo")?;
    let midnight = |date: Date| tokyo.to_timestamp(date.to_datetime(Time::midnight()));
    let (start, end) = (midnight(date)?, midnight(date.checked_add(1.day())?)?);
    let of_day = tdnet.disclosures().by_company(&*entry.company_code).between(start, end).all().await?;
    Ok(of_day.iter().any(|known| (known.disclosed_at, &known.title) == (entry.disclosed_at, &entry.title)))
}

/// An export: its link is a secret, and readers have it for a week.
async fn export(tdnet: &Tdnet, rows: usize) -> Result<(), larder::Error> {
    let id = Uuid::new_v4();
    let export = tdnet.exports().create(NewExport::new(id)).await?.start().await?;
    tdnet.exports().update(export.key()).progress(50).await?;
    let link = format!("https://exports.example.com/{id}.csv?signature=c2lnbmVk");
    let export = export.complete(link).await?;
    println!("\nexport of {rows} rows: {} %, link kept: {}", export.progress, export.download_url.is_some());
    let shown = format!("{export:?}");
    println!("  shown in logs: {}", if shown.contains("signature") { "yes" } else { "no, it is a secret" });
    Ok(())
}
