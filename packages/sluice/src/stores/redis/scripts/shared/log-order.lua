-- Clears `isLog` if the numbers of a log contradict each other, which means a damaged value.
isLog = isLog and before <= first and first <= total and total <= MOST
  and oldest <= newest and newest <= latest and latest <= MOST
