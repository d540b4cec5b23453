// @ts-check
// The work itself. Pure, so that `npm test` runs it in node.

export function shipment(paid) {
  if (!Number.isInteger(paid?.order)) {
    throw new Error("the payload has no order");
  }
  return { order: paid.order, parcels: 1 };
}
