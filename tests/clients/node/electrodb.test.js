// ElectroDB: two entities in one table, an access pattern each, one they share.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { DynamoDBDocumentClient } from "@aws-sdk/lib-dynamodb";
import { Entity, Service } from "electrodb";
import { connect, createTable, range } from "./endpoint.js";

const client = connect();
const documents = DynamoDBDocumentClient.from(client);
after(() => client.destroy());

// The service of a library on a table of its own: books by author and title, or by shelf;
// loans by their book's author, or by reader. Both are found together on `byReader`.
async function library(t) {
  const table = await createTable(client, t, {
    keys: ["pk", "sk"],
    indexes: { gsi1: ["gsi1pk", "gsi1sk"] },
  });
  const Book = new Entity({
    model: { entity: "book", version: "1", service: "library" },
    attributes: {
      author: { type: "string", required: true },
      title: { type: "string", required: true },
      reader: { type: "string", default: "none" },
      pages: { type: "number", required: true },
      genres: { type: "set", items: "string" },
      prints: { type: "list", items: { type: "number" } },
      size: { type: "map", properties: { width: { type: "number" } } },
      state: { type: ["in", "out"], default: "in" },
      changed: { type: "number", watch: "*", set: () => Date.now(), readOnly: true },
    },
    indexes: {
      byAuthor: {
        pk: { field: "pk", composite: ["author"] },
        sk: { field: "sk", composite: ["title"] },
      },
      byReader: {
        collection: "held",
        index: "gsi1",
        pk: { field: "gsi1pk", composite: ["reader"] },
        sk: { field: "gsi1sk", composite: ["title"] },
      },
    },
  });
  const Loan = new Entity({
    model: { entity: "loan", version: "1", service: "library" },
    attributes: {
      loanId: { type: "string", required: true },
      reader: { type: "string", required: true },
      due: { type: "string", required: true },
    },
    indexes: {
      byId: {
        pk: { field: "pk", composite: ["loanId"] },
        sk: { field: "sk", composite: [] },
      },
      byReader: {
        collection: "held",
        index: "gsi1",
        pk: { field: "gsi1pk", composite: ["reader"] },
        sk: { field: "gsi1sk", composite: ["due"] },
      },
    },
  });
  return new Service({ book: Book, loan: Loan }, { client: documents, table });
}

const title = (i) => `t${String(i).padStart(2, "0")}`;
const titles = (books) => books.map((book) => book.title);

async function fill(book, count) {
  const { unprocessed } = await book
    .put(range(0, count).map((i) => ({ author: "lem", title: title(i), pages: i, reader: "ann" })))
    .go();
  assert.deepEqual(unprocessed, []);
}

test("an entity is created once, read, changed and removed", async (t) => {
  const { book } = (await library(t)).entities;
  const solaris = {
    author: "lem",
    title: "solaris",
    pages: 200,
    genres: ["sf"],
    prints: [1961],
    size: { width: 13.5 },
  };
  const created = (await book.create(solaris).go()).data;
  assert.deepEqual({ ...solaris, reader: "none", state: "in", changed: created.changed }, created);
  await assert.rejects(book.create(solaris).go(), /conditional request failed/i);

  const key = { author: "lem", title: "solaris" };
  const { data } = await book
    .patch(key)
    .set({ state: "out", reader: "ann" })
    .add({ pages: 5, genres: ["novel"] })
    .append({ prints: [1970] })
    .data(({ size }, { set }) => set(size.width, 14))
    .where(({ state }, { eq }) => eq(state, "in"))
    .go({ response: "all_new" });
  assert.equal(data.pages, 205);
  assert.deepEqual(data.genres.toSorted(), ["novel", "sf"]);
  assert.deepEqual(data.prints, [1961, 1970]);
  assert.deepEqual(data.size, { width: 14 });
  assert.deepEqual((await book.get(key).go({ consistent: true })).data, data);

  // The change moved it in the index too.
  assert.deepEqual(titles((await book.query.byReader({ reader: "ann" }).go()).data), ["solaris"]);
  assert.deepEqual((await book.query.byReader({ reader: "none" }).go()).data, []);

  const absent = { author: "lem", title: "absent" };
  await assert.rejects(book.patch(absent).set({ pages: 1 }).go(), /conditional request failed/i);
  assert.deepEqual((await book.delete(key).go({ response: "all_old" })).data, data);
  assert.equal((await book.get(key).go()).data, null);
});

test("both access patterns answer ranges, filters and pages", async (t) => {
  const { book } = (await library(t)).entities;
  await fill(book, 60);

  const between = await book.query
    .byAuthor({ author: "lem" })
    .between({ title: "t10" }, { title: "t14" })
    .where(({ pages }, { ne }) => ne(pages, 12))
    .go();
  assert.deepEqual(titles(between.data), ["t10", "t11", "t13", "t14"]);

  const newest = await book.query.byReader({ reader: "ann" }).go({ order: "desc", limit: 3 });
  assert.deepEqual(titles(newest.data), ["t59", "t58", "t57"]);

  const paged = [];
  let cursor = null;
  do {
    const page = await book.query
      .byReader({ reader: "ann" })
      .begins({ title: "t" })
      .go({ cursor, limit: 8 });
    assert.ok(page.data.length <= 8);
    paged.push(...titles(page.data));
    cursor = page.cursor;
  } while (cursor !== null && paged.length <= 60);
  assert.deepEqual(paged, range(0, 60).map(title));

  const all = await book.scan.go({ pages: "all" });
  assert.equal(all.data.length, 60);
});

test("a collection brings both entities of one reader", async (t) => {
  const service = await library(t);
  const { book, loan } = service.entities;
  await fill(book, 5);
  await loan.create({ loanId: "l1", reader: "ann", due: "2024-05-02" }).go();
  await loan.create({ loanId: "l2", reader: "bob", due: "2024-05-03" }).go();
  const { data } = await service.collections.held({ reader: "ann" }).go();
  assert.deepEqual(titles(data.book), range(0, 5).map(title));
  assert.deepEqual(data.loan, [{ loanId: "l1", reader: "ann", due: "2024-05-02" }]);
});

test("batches get and delete more than one request holds", async (t) => {
  const { book } = (await library(t)).entities;
  await fill(book, 130);
  const keys = range(0, 130).map((i) => ({ author: "lem", title: title(i) }));
  const got = await book
    .get([...keys, { author: "lem", title: "absent" }])
    .go({ concurrency: 2, preserveBatchOrder: true });
  assert.deepEqual(
    titles(got.data.slice(0, 130)),
    keys.map((key) => key.title),
  );
  assert.equal(got.data[130], null);
  assert.deepEqual(got.unprocessed, []);
  assert.deepEqual((await book.delete(keys).go()).unprocessed, []);
  assert.deepEqual((await book.scan.go({ pages: "all" })).data, []);
});

test("a transaction lends a book once", async (t) => {
  const service = await library(t);
  await service.entities.book.create({ author: "lem", title: "eden", pages: 1 }).go();
  const lend = (loanId, reader) =>
    service.transaction
      .write(({ book, loan }) => [
        book
          .patch({ author: "lem", title: "eden" })
          .set({ state: "out", reader })
          .where(({ state }, { eq }) => eq(state, "in"))
          .commit({ response: "all_old" }),
        loan.create({ loanId, reader, due: "2024-05-02" }).commit(),
      ])
      .go();
  assert.equal((await lend("l1", "ann")).canceled, false);

  const refused = await lend("l2", "bob");
  assert.equal(refused.canceled, true);
  assert.deepEqual(
    refused.data.map(({ rejected, code }) => [rejected, code]),
    [
      [true, "ConditionalCheckFailed"],
      [false, "None"],
    ],
  );
  assert.equal(refused.data[0].item.reader, "ann");

  const read = await service.transaction
    .get(({ book, loan }) => [
      book.get({ author: "lem", title: "eden" }).commit(),
      loan.get({ loanId: "l1" }).commit(),
      loan.get({ loanId: "l2" }).commit(),
    ])
    .go();
  const [eden, first, second] = read.data.map(({ item }) => item);
  assert.deepEqual([eden.reader, first.reader, second], ["ann", "ann", null]);
});
