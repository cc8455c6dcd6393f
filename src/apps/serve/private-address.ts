/** Which network addresses a service must not be sent to by its callers. */
import { BlockList, isIPv4, isIPv6 } from 'node:net';

/** IANA's special-purpose registries (RFC 6890 and its successors), multicast included. */
const RESERVED_V4 = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const;

/** Inside the one block of global unicast addresses: what is reserved, and what carries an IPv4 address along. */
const RESERVED_V6 = [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
] as const;

const reserved = new BlockList();
for (const [address, bits] of RESERVED_V4) reserved.addSubnet(address, bits, 'ipv4');
for (const [address, bits] of RESERVED_V6) reserved.addSubnet(address, bits, 'ipv6');
const globalV6 = new BlockList();
globalV6.addSubnet('2000::', 3, 'ipv6');

/** Whether an address is one of the public internet; IPv4 addresses written as IPv6 are not. */
export function isPublicAddress(address: string): boolean {
  if (isIPv4(address)) return !reserved.check(address, 'ipv4');
  // A zone belongs to link-local addresses.
  if (!isIPv6(address) || address.includes('%')) return false;
  return globalV6.check(address, 'ipv6') && !reserved.check(address, 'ipv6');
}
