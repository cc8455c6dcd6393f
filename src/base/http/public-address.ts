/** Network addresses of the public internet. A service must not let its callers reach any other address through it. */
import { BlockList, isIPv4, isIPv6 } from 'node:net';

/** The special-purpose registries of IANA (RFC 6890 and its successors), and multicast. */
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

/** Within the block of global unicast addresses: the reserved ranges, and those that embed an IPv4 address. */
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

/** Whether an address belongs to the public internet. IPv4 addresses in IPv6 notation (`::ffff:127.0.0.1`) do not count. */
export function isPublicAddress(address: string): boolean {
  if (isIPv4(address)) return !reserved.check(address, 'ipv4');
  // Only link-local addresses have a zone.
  if (!isIPv6(address) || address.includes('%')) return false;
  return globalV6.check(address, 'ipv6') && !reserved.check(address, 'ipv6');
}
